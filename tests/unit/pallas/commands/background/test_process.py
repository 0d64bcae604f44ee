"""Who runs a supervisor, by what the kernel says of it; and the process behind a socket."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pallas.commands.background.process import SupervisorProcess, Unit, unit_of

if TYPE_CHECKING:
    from pathlib import Path

LISTENING = """
import socket, sys, time
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
print("listening", flush=True)
time.sleep(600)
"""
PATIENCE = 60.0


@pytest.mark.parametrize(
    ("cgroup", "unit"),
    [
        ("0::/system.slice/pallas-supervisor.service/supervisor\n", Unit("pallas-supervisor.service", False)),
        (
            "0::/user.slice/user-1000.slice/user@1000.service/app.slice/pallas-demo.service/supervisor\n",
            Unit("pallas-demo.service", True),
        ),
        ("0::/user.slice/user-1000.slice/session-3.scope\n", None),
    ],
)
def test_the_unit_is_that_which_has_executed_it(cgroup: str, unit: Unit | None) -> None:
    assert unit_of(42, cgroup, b"A=1\0SYSTEMD_EXEC_PID=42\0B=2\0") == unit


def test_what_was_started_from_a_terminal_that_is_a_service_is_nobodys_unit() -> None:
    cgroup = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/terminal.service\n"
    assert unit_of(42, cgroup, b"SYSTEMD_EXEC_PID=41\0INVOCATION_ID=x") is None


def test_the_command_that_stops_it_is_its_managers() -> None:
    assert Unit("a.service", False).stop_command == "systemctl stop a.service"
    assert Unit("a.service", True).stop_command == "systemctl --user stop a.service"


def test_the_process_behind_a_socket_gets_the_signal_and_its_end_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    with subprocess.Popen([sys.executable, "-c", LISTENING, str(path)], stdout=subprocess.PIPE) as listening:
        assert listening.stdout is not None
        assert listening.stdout.readline() == b"listening\n"
        with SupervisorProcess(path) as process:
            assert process.pid == listening.pid
            assert process.unit is None
            assert not process.has_ended(0.0)
            process.send(signal.SIGTERM)
            assert process.has_ended(PATIENCE)
            listening.wait()
            process.send(signal.SIGTERM)  # which nobody else gets
    with pytest.raises(ConnectionRefusedError):
        SupervisorProcess(path)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        SupervisorProcess(path)
