"""Listening sockets: all or none, who holds a port, and which names and addresses go with a bind address."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import psutil
import pytest

from pallas_supervisor.sockets import listeners
from pallas_supervisor.sockets.listeners import (
    PortsTakenError,
    close_listeners,
    connectable,
    describe_holder,
    open_listeners,
)
from support.ports import free_ports
from support.supervisor.processes import descriptors, nothing_leaked


def test_all_ports_are_listened_on() -> None:
    first, second = free_ports(2)
    with nothing_leaked():
        opened = open_listeners("127.0.0.1", {"research": first, "jarvis": second})
        assert {name: listener.getsockname() for name, listener in opened.items()} == {
            "research": ("127.0.0.1", first),
            "jarvis": ("127.0.0.1", second),
        }
        for listener in opened.values():
            assert not listener.getblocking()
            assert not listener.get_inheritable()
            assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        close_listeners(opened.values())


def test_a_port_is_free_again_at_once() -> None:
    (port,) = free_ports(1)
    opened = open_listeners("127.0.0.1", {"research": port})
    with socket.create_connection(("127.0.0.1", port)):
        connection, _ = opened["research"].accept()
        connection.close()
    close_listeners(opened.values())
    close_listeners(open_listeners("127.0.0.1", {"research": port}).values())


def test_every_taken_port_is_told_with_its_holder_and_none_is_kept() -> None:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        taken = [held.getsockname()[1] for held in (one, other)]
        (free,) = free_ports(1)
        before = descriptors()
        with pytest.raises(PortsTakenError) as caught:
            open_listeners("127.0.0.1", {"registry": taken[0], "research": free, "jarvis": taken[1]})
        assert descriptors() - before == set()
    first, second = str(caught.value).splitlines()
    assert first.startswith(f"port {taken[0]} (registry) is taken by ")
    assert f"(pid {os.getpid()})" in first
    assert first.endswith("; free it or choose another in agents.yaml")
    assert f"port {taken[1]} (jarvis)" in second


def test_the_holder_is_another_process() -> None:
    script = (
        "import socket, sys\n"
        "held = socket.create_server(('127.0.0.1', 0))\n"
        "print(held.getsockname()[1], flush=True)\n"
        "sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-ISc", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with pytest.raises(PortsTakenError, match=rf"taken by \S+ \(pid {process.pid}\)"):
            open_listeners("127.0.0.1", {"research": port})
        process.kill()


def test_the_name_of_a_holder_is_anybodys_and_escaped() -> None:
    script = (
        "import socket, sys, setproctitle\n"
        "held = socket.create_server(('127.0.0.1', 0))\n"
        "setproctitle.setthreadtitle('x\\n\\u202ey\\x1b[1m')\n"
        "print(held.getsockname()[1], flush=True)\n"
        "sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        assert describe_holder(port) == rf"x\n\u202ey\x1b[1m (pid {process.pid})"
        process.kill()


def test_a_holder_that_may_not_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil, "net_connections", refuse)
    assert "only its owner or root can see" in describe_holder(1)


@pytest.mark.parametrize(
    ("bind", "message"),
    [
        ("no.such.host.invalid", r"cannot listen on no\.such\.host\.invalid port \d+ \(research\): "),
        (
            "192.0.2.1",
            r"^no interface of this machine has the address 192\.0\.2\.1; write one .* or 0\.0\.0\.0 for all",
        ),
    ],
)
def test_addresses_that_are_not_ours(bind: str, message: str) -> None:
    with pytest.raises(PortsTakenError, match=message):
        open_listeners(bind, {"research": free_ports(1)[0]})


def test_privileged_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_bind: str, _port: int) -> socket.socket:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(listeners, "_listen", refuse)
    with pytest.raises(
        PortsTakenError, match=r"port 80 \(research\) needs privileges; choose one from 1024 up"
    ):
        open_listeners("127.0.0.1", {"research": 80})


class _Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept = 0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept += 1


@pytest.mark.parametrize("patience", [0.0, 5.0])
def test_a_port_that_an_orphan_holds_is_waited_for(patience: float, monkeypatch: pytest.MonkeyPatch) -> None:
    time = _Time()
    monkeypatch.setattr(listeners, "time", time)
    monkeypatch.setattr(listeners, "_held_by_worker", lambda _port: True)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortsTakenError):
            open_listeners("127.0.0.1", {"research": port, "jarvis": port}, patience=patience)
    assert time.now <= patience + 0.1
    assert (time.slept > 0) == (patience > 0)


def test_an_orphan_that_goes_leaves_its_port(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = socket.create_server(("127.0.0.1", 0))
    time = _Time()
    monkeypatch.setattr(listeners, "time", time)
    monkeypatch.setattr(time, "sleep", lambda _seconds: taken.close())
    monkeypatch.setattr(listeners, "_held_by_worker", lambda _port: True)
    close_listeners(open_listeners("127.0.0.1", {"research": taken.getsockname()[1]}).values())


def test_anybody_else_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    time = _Time()
    monkeypatch.setattr(listeners, "time", time)
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(PortsTakenError):
        open_listeners("127.0.0.1", {"research": taken.getsockname()[1]})
    assert time.slept == 0


@pytest.mark.parametrize(
    ("bind", "address"),
    [
        ("0.0.0.0", "127.0.0.1"),
        ("::", "::1"),
        ("127.0.0.1", "127.0.0.1"),
        ("10.0.0.5", "10.0.0.5"),
        ("localhost", "localhost"),
    ],
)
def test_where_a_bound_socket_is_reached(bind: str, address: str) -> None:
    assert connectable(bind) == address
