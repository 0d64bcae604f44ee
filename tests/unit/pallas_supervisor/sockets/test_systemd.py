"""What is reported to systemd's notify socket, and how often it wants to hear of the supervisor."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from pallas_supervisor.sockets.systemd import Notifier
from support.supervisor.processes import nothing_leaked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Manager:
    """The receiving end of NOTIFY_SOCKET."""

    def __init__(self, channel: socket.socket, address: str) -> None:
        self._channel = channel
        self.environ = {"NOTIFY_SOCKET": address}

    def received(self) -> list[str]:
        found = []
        while True:
            try:
                found.append(self._channel.recv(65536).decode())
            except BlockingIOError:
                return found


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    with nothing_leaked(), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        path = str(tmp_path / "notify")
        if request.param == "path":
            channel.bind(path)
            address = path
        else:
            channel.bind(f"\0{path}")
            address = f"@{path}"
        channel.setblocking(False)
        yield Manager(channel, address)


def test_assignments_come_in_one_datagram(manager: Manager) -> None:
    Notifier(manager.environ).send("READY=1", "MAINPID=42")
    assert manager.received() == ["READY=1\nMAINPID=42"]


def test_a_status_is_sent_once_and_on_one_line(manager: Manager) -> None:
    notifier = Notifier(manager.environ)
    for text in ("1/2 agents ready", "1/2 agents ready", "jarvis: failed\nREADY=1", "1/2 agents ready"):
        notifier.status(text)
    assert manager.received() == [
        "STATUS=1/2 agents ready",
        "STATUS=jarvis: failed READY=1",
        "STATUS=1/2 agents ready",
    ]


def test_a_manager_that_does_not_listen_holds_nobody_up(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pallas_supervisor.sockets.systemd.SEND_TIMEOUT", 0.0001)
    notifier = Notifier(manager.environ)
    for number in range(600):  # more than the kernel queues
        notifier.send(f"X={number}")
    assert 0 < len(manager.received()) < 600


def test_without_a_manager_nothing_happens(tmp_path: Path) -> None:
    Notifier({}).send("READY=1")
    Notifier({}).status("ready")
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "gone")}).send("READY=1")


@pytest.mark.parametrize(
    ("environ", "interval"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_watchdog_interval(environ: dict[str, str], interval: float | None) -> None:
    assert Notifier(environ).watchdog_interval == interval
