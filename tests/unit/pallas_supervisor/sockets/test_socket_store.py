"""Sockets over restarts: found by address, made to listen again, and kept by a manager that keeps anything at all."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pallas_supervisor.sockets.activation import Inheritance, Inherited, serving, take_inheritance
from pallas_supervisor.sockets.listeners import PortsTakenError, close_listeners, open_listeners
from pallas_supervisor.sockets.socket_store import SocketStore
from pallas_supervisor.sockets.systemd import Notifier
from support.fleet.service_manager import HAND_DOWN, ServiceManager
from support.ports import free_ports
from support.supervisor.processes import nothing_leaked

if TYPE_CHECKING:
    from pathlib import Path

TAKE = """
import json, os, socket
from pallas_supervisor.sockets.activation import take_inheritance
environ = dict(os.environ)
found = take_inheritance(environ)
left = sorted(name for name in environ if name.startswith("LISTEN_"))
ports = {each.name: each.listener.getsockname()[1] for each in found.sockets}
inheritable = [each.name for each in found.sockets if each.listener.get_inheritable()]
again = take_inheritance(environ)
print(json.dumps([ports, list(found.others), left, inheritable, len(again.sockets)]))
"""


def listening(address: str = "127.0.0.1", family: socket.AddressFamily = socket.AF_INET) -> socket.socket:
    return socket.create_server((address, 0), family=family)


def listens(listener: socket.socket) -> bool:
    return bool(listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def port_of(listener: socket.socket) -> int:
    port: int = listener.getsockname()[1]
    return port


def store(*inherited: Inherited, environ: dict[str, str] | None = None) -> SocketStore:
    return SocketStore(Notifier(environ or {}), Inheritance(inherited))


# --- what is handed down --------------------------------------------------------------------------------


def test_descriptors_are_taken_by_the_process_that_they_are_for_and_only_once(tmp_path: Path) -> None:
    with listening() as one, socket.socketpair()[0] as pair, (tmp_path / "file").open("w") as file:
        given = [one.fileno(), pair.fileno(), file.fileno()]
        command = [
            sys.executable,
            "-S",
            "-c",
            HAND_DOWN,
            ",".join(map(str, given)),
            sys.executable,
            "-c",
            TAKE,
        ]
        names = {"LISTEN_FDS": "4", "LISTEN_FDNAMES": "one:pair:file"}  # one more than there are
        told = subprocess.run(
            command, env={**os.environ, **names}, pass_fds=given, capture_output=True, text=True, check=True
        )
        assert json.loads(told.stdout) == [{"one": port_of(one)}, ["pair", "file", ""], [], [], 0]


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"LISTEN_FDS": "1"},
        {"LISTEN_FDS": "1", "LISTEN_PID": "1"},
        {"LISTEN_FDS": "some", "LISTEN_PID": str(os.getpid())},
    ],
)
def test_what_is_for_somebody_else_is_left_alone(environ: dict[str, str]) -> None:
    with nothing_leaked():
        assert take_inheritance(environ) == Inheritance()
    assert environ == {}


def test_a_socket_is_found_by_its_address() -> None:
    with (
        listening() as loopback,
        listening("0.0.0.0") as everywhere,
        listening("::1", socket.AF_INET6) as loopback6,
        socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as dual,
    ):
        all_of_them = [Inherited("web", each) for each in (loopback, everywhere, loopback6, dual)]

        def found(address: str, listener: socket.socket) -> socket.socket | None:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            rest = (0, 0) if ":" in address else ()
            which = serving(all_of_them, family, (address, port_of(listener), *rest))
            return None if which is None else which.listener

        assert found("127.0.0.1", loopback) is loopback
        assert found("0.0.0.0", everywhere) is everywhere
        assert found("::1", loopback6) is loopback6
        assert found("::", dual) is dual
        assert found("0.0.0.0", dual) is dual
        assert found("127.0.0.1", dual) is None
        assert found("0.0.0.0", loopback) is None
        assert found("127.0.0.1", everywhere) is None


# --- listening ------------------------------------------------------------------------------------------


def test_an_inherited_socket_is_used_and_one_that_was_shut_down_listens_again() -> None:
    with nothing_leaked():
        deaf = socket.create_server(
            ("127.0.0.1", free_ports(1)[0])
        )  # one that the kernel chose would be lost
        deaf.shutdown(socket.SHUT_RDWR)
        assert not listens(deaf)
        port = port_of(deaf)
        opened = open_listeners("127.0.0.1", {"a": port}, inherited=store(Inherited("port-x", deaf)).take)
        assert opened["a"] is deaf
        assert listens(deaf)
        assert not deaf.getblocking()
        socket.create_connection(("127.0.0.1", port)).close()
        close_listeners(opened.values())


def test_one_of_ours_on_another_address_makes_room() -> None:
    everywhere = listening("0.0.0.0")
    port = port_of(everywhere)
    everywhere.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    with everywhere.dup() as of_the_manager:
        inherited = store(Inherited(f"port-{port}", everywhere))
        opened = open_listeners("127.0.0.1", {"a": port}, inherited=inherited.take)
        inherited.drop_unclaimed()
        assert opened["a"].getsockname() == ("127.0.0.1", port)
        assert not listens(of_the_manager)
        assert everywhere.fileno() == -1
        close_listeners(opened.values())


def test_a_socket_unit_on_another_address_is_in_the_way_and_said_to_be() -> None:
    with listening("0.0.0.0") as everywhere:
        inherited = store(Inherited("web.socket", everywhere.dup()))
        with pytest.raises(PortsTakenError, match=str(os.getpid())):
            open_listeners("127.0.0.1", {"a": port_of(everywhere)}, inherited=inherited.take)
        inherited.drop_unclaimed()
        assert listens(everywhere)


# --- keeping --------------------------------------------------------------------------------------------


def opened(manager: ServiceManager, *inherited: Inherited) -> SocketStore:
    made = store(*inherited, environ=manager.environment)
    asyncio.run(made.open())
    manager.until(lambda said: said[-1:] == ["FDNAME=pallas-probe"])  # which is taken back
    return made


def test_the_manager_keeps_exactly_what_is_listened_on(tmp_path: Path) -> None:
    with ServiceManager(tmp_path) as manager, nothing_leaked(), listening() as one, listening() as two:
        kept = opened(manager)
        assert kept.holds(one)
        kept.keep([one, two])
        manager.until(lambda said: said.count("FDSTORE=1") == 3)  # the first one was to see whether it would
        assert set(manager.store) == {f"port-{port_of(one)}", f"port-{port_of(two)}"}
        kept.keep([two])
        manager.until(lambda said: said[-2:] == ["FDSTOREREMOVE=1", f"FDNAME=port-{port_of(one)}"])
        assert set(manager.store) == {f"port-{port_of(two)}"}
        heard = len(manager.said)
        kept.keep([two])
        Notifier(manager.environment).send("X=1")
        assert manager.until(lambda said: "X=1" in said, heard) == ["X=1"]
        os.close(manager.store.pop(f"port-{port_of(two)}")[0])


def test_a_manager_that_keeps_nothing_is_not_relied_on(tmp_path: Path) -> None:
    with ServiceManager(tmp_path, keeps=False) as manager, nothing_leaked(), listening() as one:
        kept = opened(manager)
        assert not kept.holds(one)
        heard = len(manager.said)
        kept.keep([one])
        assert manager.said[heard:] == []


def test_without_a_manager_nothing_is_kept() -> None:
    with nothing_leaked(), listening() as one:
        for environ in ({}, {"NOTIFY_SOCKET": "/nowhere/at/all"}):
            kept = store(environ=environ)
            asyncio.run(kept.open())
            kept.keep([one])
            assert not kept.holds(one)


def test_a_manager_that_never_answers_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pallas_supervisor.sockets.systemd.BARRIER_TIMEOUT", 0.01)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(tmp_path / "notify"))
        assert not asyncio.run(Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify")}).keeps_descriptors())


def test_a_port_of_a_socket_unit_outlives_us_without_any_store_and_is_not_stored(tmp_path: Path) -> None:
    with ServiceManager(tmp_path) as manager, listening() as web, listening() as own:
        inherited = (Inherited("web.socket", web), Inherited(f"port-{port_of(own)}", own))
        unopened = store(*inherited)
        assert unopened.take(socket.AF_INET, web.getsockname()) is web
        assert (unopened.holds(web), unopened.holds(own)) == (True, False)
        kept = opened(manager, *inherited)
        kept.take(socket.AF_INET, web.getsockname())
        kept.take(socket.AF_INET, own.getsockname())
        heard = len(manager.said)
        kept.keep([web, own])
        kept.keep([web])
        manager.until(lambda said: f"FDNAME=port-{port_of(own)}" in said, heard)
        assert manager.said[heard:] == ["FDSTOREREMOVE=1", f"FDNAME=port-{port_of(own)}"]


def test_what_nobody_claims_is_closed_and_given_back(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    left = socket.create_server(("127.0.0.1", port))
    with ServiceManager(tmp_path) as manager:
        dropped = SocketStore(
            Notifier(manager.environment), Inheritance((Inherited(f"port-{port}", left),), ("port-1", ""))
        )
        dropped.drop_unclaimed()
        assert left.fileno() == -1
        manager.until(lambda said: f"FDNAME=port-{port}" in said and "FDNAME=port-1" in said)
        close_listeners(open_listeners("127.0.0.1", {"a": port}, patience=0.0).values())
