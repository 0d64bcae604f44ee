"""How a process of the gateway ends that cannot begin: the supervisor is told why."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from pallas_common.protocol.reports import FailedReport, decode_report
from pallas_common.protocol.spec import EXIT_FAILURE


def test_a_specification_that_cannot_be_read_is_reported() -> None:
    spec = os.memfd_create("spec")
    os.write(spec, b"{}")
    with socket.socket() as listener:
        lifeline, held = os.pipe()
        read_end, report = os.pipe()
        records, output = os.dup(report), os.dup(report)
        ours = (spec, listener.fileno(), lifeline, report, records, output)
        done = subprocess.run(
            [sys.executable, "-P", "-m", "pallas_gateway.process", ",".join(map(str, ours))],
            pass_fds=set(ours),
            capture_output=True,
            check=False,
        )
    for each in (spec, lifeline, held, report, records, output):
        os.close(each)
    with os.fdopen(read_end, "rb") as reports:
        (said,) = [decode_report(line) for line in reports]
    assert isinstance(said, FailedReport)
    assert "not a specification of a gateway" in said.message
    assert (done.returncode, said.permanent) == (EXIT_FAILURE, False)


@pytest.mark.parametrize("arguments", [[], ["1,2"], ["a"]])
def test_nobody_starts_it_by_hand(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pallas_gateway.process", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "write `gateway: {}` into agents.yaml" in done.stderr


def test_what_only_some_deployments_need_is_not_loaded_by_all() -> None:
    """Each of them takes megabytes and tens of milliseconds at every start."""
    program = "import sys; import pallas_gateway.process.serve; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    costly = {
        "alembic",
        "cryptography",
        "jwt",
        "psycopg",
        "pydantic",
        "mcp",
        "mcp_types",
        "opentelemetry.sdk",
    }
    assert not (costly | {"sqlalchemy.dialects.postgresql"}) & set(done.stdout.split())
