"""A process is known to be there by its lock, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from pallas_gateway.conversations.keeping.processes import FOLDER, Processes

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import sys
from pallas_gateway.conversations.keeping.processes import Processes
processes = Processes(sys.argv[1])
print(processes.own, flush=True)
sys.stdin.read()
"""


def test_a_process_is_dead_when_it_was_killed(tmp_path: Path) -> None:
    ours = Processes(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        name = other.stdout.readline().strip()
        assert ours.is_alive(name)
        assert ours.is_alive(ours.own)
        os.kill(other.pid, signal.SIGKILL)
        other.wait()
    assert not ours.is_alive(name)
    assert [path.name for path in (tmp_path / FOLDER).iterdir()] == [ours.own], (
        "what the dead one left is taken away"
    )
    ours.close()
    assert not list((tmp_path / FOLDER).iterdir())


def test_what_a_row_holds_leads_to_no_other_file(tmp_path: Path) -> None:
    ours = Processes(tmp_path)
    (tmp_path / "victim").touch()
    assert not ours.is_alive("../victim")
    assert not ours.is_alive("")
    assert (tmp_path / "victim").exists()
