"""Descriptors that the supervisor itself was started with, or without."""

from __future__ import annotations

import subprocess
import sys

import pytest

LOOK = """
import os
from pallas_supervisor.executing import open_standard_descriptors
open_standard_descriptors()
report = os.memfd_create("report")
found = [os.readlink(f"/proc/self/fd/{number}") for number in range(3)]
inherited = [os.get_inheritable(number) for number in range(3)]
with open(os.environ["REPORT"], "w") as file:
    print(found, inherited, report, file=file)
"""


@pytest.mark.parametrize("missing", ["", "<&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_missing_standard_descriptor_is_the_null_device(missing: str, tmp_path):  # type: ignore[no-untyped-def]
    report = tmp_path / "report"
    command = f"exec {sys.executable} -c '{LOOK.replace(chr(39), chr(34))}' {missing}"
    subprocess.run(
        ["sh", "-c", command], env={"REPORT": str(report)}, stdin=subprocess.DEVNULL, check=True, timeout=60
    )
    found, rest = report.read_text().split("] ", 1)
    assert found.count("/dev/null") >= missing.count("&-")
    assert rest.startswith("[True, True, True]")
    assert int(rest.split()[-1]) > 2
