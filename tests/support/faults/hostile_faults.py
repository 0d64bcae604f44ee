"""More faults of a campaign: what hostile code, callers and files do, other than to end, to hang and to multiply.

Knows the inputs of a supervisor; what has to hold afterwards is checked by `campaign`.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
from typing import TYPE_CHECKING, Any

from support.faults.campaign import LEAVES, Fault
from support.faults.fuzz.material import EXPENSIVE_TEXTS, lines
from support.faults.fuzz.pipes import RECORDS, REPORTS, open_pipe, write_to

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from support.faults.campaign import Campaign

SILENT = 300
"""Connections that say nothing, to each port."""

_UNREADABLE = (
    b'{"kind":"health","status":"ok","timestamp":"now","downstreams":[[1]]}\n' + b"[" * 60_000 + b"\n"
)


@contextlib.contextmanager
def _pipe(campaign: Campaign, pid: int, name: str) -> Iterator[int]:
    descriptor = open_pipe(campaign.fleet.pid, pid, name)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _malformed_reports_and_death(campaign: Campaign) -> Collection[str]:
    agent = campaign.rng.choice(LEAVES)
    pid = campaign.pid(agent)
    with _pipe(campaign, pid, "report") as report:
        write_to(report, _UNREADABLE + lines(REPORTS, campaign.rng))
        os.kill(pid, signal.SIGKILL)
        write_to(report, _UNREADABLE)
    campaign.await_death(pid)
    return (agent,)


def _malformed_reports_and_freeze(campaign: Campaign) -> Collection[str]:
    """The judge of frozen workers is told nonsense by the one that freezes."""
    pid = campaign.pid("delta")
    with _pipe(campaign, pid, "report") as report:
        os.kill(pid, signal.SIGSTOP)
        write_to(report, _UNREADABLE)
    campaign.await_death(pid)
    return ("delta",)


def _expensive_output(campaign: Campaign) -> Collection[str]:
    """Texts that tempt a search for secrets to look at everything again and again; and records with a false name."""
    texts = "".join(text * (30_000 // len(text)) + "\n" for text in EXPENSIVE_TEXTS)
    forged: list[Any] = [json.dumps(record).encode() + b"\n" for record in RECORDS]
    pid = campaign.pid("delta")
    with _pipe(campaign, pid, "output") as output, _pipe(campaign, pid, "records") as records:
        write_to(output, texts.encode())
        write_to(records, b"".join(forged))
    return ()


def _silent_connections(campaign: Campaign) -> Collection[str]:
    """Nobody who connects and says nothing keeps out anybody else, or hides a death."""
    ports = [campaign.deployment.document["registry_port"], campaign.deployment.agents["delta"]["port"]]
    with contextlib.ExitStack() as stack:
        for port in ports:
            for _ in range(SILENT):
                stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        for _ in range(SILENT // 4):
            control = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            control.connect(str(campaign.fleet.runtime / "control.sock"))
        campaign.kill("late")
        campaign.fleet.wait("late")
    return ("late",)


def _strange_files(campaign: Campaign) -> Collection[str]:
    """A file of the configuration becomes something that never ends, or never begins, while it is looked at."""
    name = campaign.rng.choice(("agents.yaml", "fastagent.config.yaml", ".env"))
    path = campaign.deployment.directory / name
    good = path.read_bytes() if path.exists() else None
    path.unlink(missing_ok=True)
    match campaign.rng.randrange(3):
        case 0:
            os.mkfifo(path)
        case 1:
            path.symlink_to("/dev/zero")
        case _:
            path.write_bytes((b"OPEN='" if name == ".env" else b"") + b"[" * 50_000)
    try:
        campaign.fleet.status()
        answer = campaign.fleet.post("/v1/reload", dry_run=True)
        assert answer.status_code == 422, answer.text
    finally:
        path.unlink()
        if good is not None:
            path.write_bytes(good)
    return ()


HOSTILE_FAULTS = (
    Fault("malformed reports and death", _malformed_reports_and_death, 2),
    Fault("malformed reports and freeze", _malformed_reports_and_freeze, 1),
    Fault("expensive output", _expensive_output, 1),
    Fault("silent connections", _silent_connections, 1),
    Fault("strange files", _strange_files, 2),
)
