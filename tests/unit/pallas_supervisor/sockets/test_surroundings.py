"""What the supervisor has to do with its surroundings: the instance lock, systemd's socket, a worker's port."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pallas_supervisor.sockets import mcp_probe as readiness
from pallas_supervisor.sockets.instance_lock import AlreadyRunningError, lock_instance
from pallas_supervisor.sockets.mcp_probe import probe, until_answered
from pallas_supervisor.sockets.systemd import Notifier
from support.ports import free_ports
from support.supervisor.processes import PATIENCE, nothing_leaked

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path


# --- the instance lock ----------------------------------------------------------------------------------


def test_a_second_instance_is_told_who_holds_the_lock(tmp_path: Path) -> None:
    with nothing_leaked():
        held = lock_instance(tmp_path, "demo")
        with pytest.raises(AlreadyRunningError, match=f"demo is running already, as process {os.getpid()}; "):
            lock_instance(tmp_path, "demo")
        os.close(held)
        again = lock_instance(tmp_path, "demo")
        os.close(again)


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    script = (
        "import pathlib, sys, time\n"
        "from pallas_supervisor.sockets.instance_lock import lock_instance\n"
        "held = lock_instance(pathlib.Path(sys.argv[1]), 'demo')\n"
        "print('held', flush=True)\n"
        "time.sleep(3600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(AlreadyRunningError, match=f"process {process.pid}; .*PALLAS_RUNTIME_DIR"):
            lock_instance(tmp_path, "demo")
        process.kill()
        process.wait()
        os.close(lock_instance(tmp_path, "demo"))
    assert (tmp_path / "supervisor.lock").read_text() == f"{os.getpid()}\n"


def test_a_name_that_was_longer_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "supervisor.lock").write_text("123456789012345\n")
    held = lock_instance(tmp_path, "demo")
    assert (tmp_path / "supervisor.lock").read_text() == f"{os.getpid()}\n"
    os.close(held)


def test_the_lock_is_no_childs(tmp_path: Path) -> None:
    held = lock_instance(tmp_path, "demo")
    assert not os.get_inheritable(held)
    os.close(held)


def test_a_holder_that_has_not_written_its_name_yet(tmp_path: Path) -> None:
    held = lock_instance(tmp_path, "demo")
    os.ftruncate(held, 0)
    with pytest.raises(AlreadyRunningError, match="as another process"):
        lock_instance(tmp_path, "demo")
    os.close(held)


# --- systemd --------------------------------------------------------------------------------------------


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


# --- readiness ------------------------------------------------------------------------------------------


def with_server(handle: Callable[[bytes], bytes], do: Callable[[int], Awaitable[None]]) -> list[bytes]:
    """Run `do(port)` against a server that answers each request's head and body with `handle`'s bytes."""
    requests: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split()[0])
        requests.append(head + await reader.readexactly(length))
        writer.write(handle(requests[-1]))
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with asyncio.timeout(PATIENCE), server:
            await do(server.sockets[0].getsockname()[1])

    asyncio.run(run())
    return requests


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", None),
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", "answered 'HTTP/1.1 503 Service Unavailable'"),
        (b"HTTP/1.1 421 Misdirected Request\r\n\r\n", "answered 'HTTP/1.1 421 Misdirected Request'"),
        (b"200\r\n", "answered '200'"),
        (b"", "answered ''"),
    ],
)
def test_a_probe_wants_200(answer: bytes, verdict: str | None) -> None:
    async def do(port: int) -> None:
        assert await probe("127.0.0.1", port) == verdict

    (request,) = with_server(lambda _: answer, do)
    assert request.startswith(b"POST /mcp HTTP/1.1\r\n")
    assert b'"method": "initialize"' in request


def test_a_probe_of_a_port_that_nobody_serves() -> None:
    assert "Connect call failed" in str(asyncio.run(probe("127.0.0.1", free_ports(1)[0])))


def test_a_probe_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "PROBE_TIMEOUT", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert asyncio.run(probe("127.0.0.1", silent.getsockname()[1])) == "no answer within 0.01 s"


def test_it_is_probed_until_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "PROBE_INTERVAL", 0.0)
    answers = iter([b"HTTP/1.1 503 No\r\n\r\n", b"", b"HTTP/1.1 200 OK\r\n\r\n"])

    async def do(port: int) -> None:
        await until_answered("127.0.0.1", port)

    assert len(with_server(lambda _: next(answers), do)) == 3
