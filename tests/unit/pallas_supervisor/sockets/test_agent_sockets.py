"""What agents listen on: ports all or none, unix sockets each for itself, and what is left at the end."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import TYPE_CHECKING

import pytest

from pallas_registry.environment.runtime_directory import agent_socket
from pallas_supervisor.sockets import agent_sockets
from pallas_supervisor.sockets.activation import Inheritance, Inherited
from pallas_supervisor.sockets.agent_sockets import AgentSockets, NoListenerError
from pallas_supervisor.sockets.listeners import PortsTakenError
from pallas_supervisor.sockets.socket_store import SocketStore
from pallas_supervisor.sockets.systemd import Notifier
from support.fleet.service_manager import ServiceManager
from support.ports import free_ports
from support.supervisor.processes import nothing_leaked

if TYPE_CHECKING:
    from pathlib import Path


def sockets(directory: Path, store: SocketStore | None = None) -> AgentSockets:
    return AgentSockets("127.0.0.1", directory, store or SocketStore(Notifier({}), Inheritance()))


def test_one_listens_on_its_port_and_the_other_at_its_path(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    made = sockets(tmp_path)
    with nothing_leaked():
        opened = made.open({"one": None, "research": port, "two": None})
        assert {name: listener.getsockname() for name, listener in opened.items()} == {
            "one": str(agent_socket(tmp_path, "one")),
            "research": ("127.0.0.1", port),
            "two": str(agent_socket(tmp_path, "two")),
        }
        assert made.address("one", None) == str(made.path("one"))
        assert made.address("research", port) == ("127.0.0.1", port)
        made.close(opened)
    assert list((tmp_path / "agents").iterdir()) == []
    made.close(opened)  # at the end of whatever has opened them, once more


def test_where_a_port_is_taken_nothing_is_listened_on(tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        nothing_leaked(),
        pytest.raises(PortsTakenError, match="research"),
    ):
        sockets(tmp_path).open({"one": None, "research": taken.getsockname()[1]}, patience=0.0)
    assert not (tmp_path / "agents").exists()


def test_one_whose_socket_cannot_be_had_keeps_no_other_from_its_own(tmp_path: Path) -> None:
    made = sockets(tmp_path)
    made.path("one").mkdir(parents=True)
    opened = made.open({"one": None, "two": None})
    assert opened.keys() == {"two"}
    assert made.refused == {"one": f"a directory is in the way at {made.path('one')}; remove it"}
    with pytest.raises(NoListenerError, match="a directory is in the way"):
        made.open_again("one")
    made.path("one").rmdir()
    with made.open_again("one") as listener:
        assert listener.getsockname() == str(made.path("one"))
    assert made.refused == {}
    made.close(opened)


def test_a_long_runtime_directory_is_said_of_each_agent_without_a_port(tmp_path: Path) -> None:
    directory = tmp_path / ("x" * 90)
    directory.mkdir()
    (port,) = free_ports(1)
    made = sockets(directory)
    opened = made.open({"one": None, "research": port})
    assert opened.keys() == {"research"}
    assert "set PALLAS_RUNTIME_DIR to a path that is shorter by" in made.refused["one"]
    made.close(opened)


def test_what_runs_keeps_descriptors_however_many_agents_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = sockets(tmp_path)
    room = len(list(agent_sockets.OPEN_DESCRIPTORS.iterdir())) + 2
    monkeypatch.setattr(agent_sockets, "share_of_descriptors", lambda _part, _most: room)
    opened = made.open({"one": None, "two": None, "three": None})
    assert list(opened) == ["one", "two"]
    assert made.refused["three"].startswith(
        "no descriptor is left for its unix socket; allow this process more"
    )
    made.close(opened)


def test_a_thousand_are_kept_by_the_manager_and_found_again(tmp_path: Path) -> None:
    names: dict[str, int | None] = {f"agent{number}": None for number in range(1000)}
    with ServiceManager(tmp_path) as manager:

        def kept() -> int:
            return len(manager.descriptors)

        store = SocketStore(Notifier(manager.environment), Inheritance())
        made = sockets(tmp_path, store)
        opened = made.open(names)
        asyncio.run(store.open())
        heard = len(manager.said)
        store.keep(opened.values())
        manager.until(lambda _: kept() == 1000, heard)
        assert len(manager.store) <= 256
        assert len(manager.environment["LISTEN_FDNAMES"]) < 8 * 1024
        assert made.outlives(opened["agent7"])
        made.close(opened)
        assert made.path("agent7").is_socket(), "the next supervisor listens there"

        inheritance = Inheritance(
            tuple(
                Inherited(name, socket.socket(fileno=os.dup(descriptor)))
                for name, descriptors in manager.store.items()
                for descriptor in descriptors
            )
        )
        store = SocketStore(Notifier(manager.environment), inheritance)
        made = sockets(tmp_path, store)
        del names["agent7"]
        inode = made.path("agent8").stat().st_ino
        opened = made.open({**names, "fresh": None})
        made.remove_leftovers({**names, "fresh": None})
        store.drop_unclaimed()
        asyncio.run(store.open())
        store.keep(opened.values())
        wanted = {os.fstat(listener.fileno()).st_ino for listener in opened.values()}
        manager.until(lambda _: {os.fstat(each).st_ino for each in manager.descriptors} == wanted)
        assert made.path("agent8").stat().st_ino == inode, "it is the old one"
        assert not made.path("agent7").exists()
        store.keep(listener for name, listener in opened.items() if name != "agent8")
        manager.until(lambda _: kept() == 999)
        made.close(opened)
