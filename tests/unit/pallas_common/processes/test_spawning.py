"""What the supervisor itself was started with, or without, and what of it its programs have: descriptors, signals."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

LOOK = """
import os
from pallas_common.processes.descriptors import open_standard_descriptors
open_standard_descriptors()
report = os.memfd_create("report")
found = [os.readlink(f"/proc/self/fd/{number}") for number in range(3)]
inherited = [os.get_inheritable(number) for number in range(3)]
with open(os.environ["REPORT"], "w") as file:
    print(found, inherited, report, file=file)
"""


@pytest.mark.parametrize("missing", ["", "<&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_missing_standard_descriptor_is_the_null_device(missing: str, tmp_path: Path) -> None:
    report = tmp_path / "report"
    command = f"exec {sys.executable} -c '{LOOK.replace(chr(39), chr(34))}' {missing}"
    subprocess.run(
        ["sh", "-c", command], env={"REPORT": str(report)}, stdin=subprocess.DEVNULL, check=True, timeout=60
    )
    found, rest = report.read_text().split("] ", 1)
    assert found.count("/dev/null") >= missing.count("&-")
    assert rest.startswith("[True, True, True]")
    assert int(rest.split()[-1]) > 2


RAISE = """
import os, resource, sys
from pallas_common.processes.spawning import execute, raise_descriptor_limit
raise_descriptor_limit()
show = "import os, resource, sys; os.read(int(sys.argv[1]), 1); print(*resource.getrlimit(resource.RLIMIT_NOFILE))"
print(*resource.getrlimit(resource.RLIMIT_NOFILE), flush=True)
reading, writing = os.pipe()
pid = execute([sys.executable, "-ISc", show, str(reading)], {}, [reading], None)
os.close(writing)  # it looks only now
os.waitpid(pid, 0)
"""


def test_programs_keep_the_limit_of_descriptors_that_the_supervisor_was_started_with() -> None:
    """Their own select(2) can look at no more."""
    command = ["sh", "-c", 'ulimit -Sn 300 && ulimit -Hn 700 && exec "$@"', "sh", sys.executable, "-c", RAISE]
    shown = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout
    assert shown.split() == ["700", "700", "300", "700"]


IGNORE = """
import os, select, signal, sys
from pallas_common.processes.spawning import execute
from pallas_supervisor.processes.keeper.client import Keeper
for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
    signal.signal(number, signal.SIG_IGN)
show = [sys.argv[1], "SigIgn", "/proc/self/status"]
os.waitpid(execute(show, {}, [], None), 0)
keeper = Keeper({})
select.select([os.pidfd_open(keeper.execute(show, {}, [], None))], [], [])
keeper.end()
"""


def test_programs_ignore_no_signal_because_the_supervisor_was_started_so() -> None:
    """A shell without job control has what it starts with `&` ignore SIGINT and SIGQUIT."""
    grep = shutil.which("grep")
    assert grep is not None
    command = [sys.executable, "-c", IGNORE, grep]
    shown = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout
    masks = [int(word, 16) for word in shown.split() if word != "SigIgn:"]
    assert len(masks) == 2
    for mask in masks:
        assert [number for number in signal.valid_signals() if mask >> (number - 1) & 1] == []
