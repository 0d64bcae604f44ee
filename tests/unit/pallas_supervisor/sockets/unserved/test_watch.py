"""Connections that wait on watched sockets are told of once, and are not accepted."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING

from pallas_supervisor.sockets.unserved.watch import SocketWatch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

type Sockets = dict[str, socket.socket]


def on_sockets(do: Callable[[Sockets, asyncio.Queue[str], SocketWatch], Awaitable[None]]) -> None:
    """Do something with two listening sockets, what is told of them, and a watch on both."""

    async def run() -> None:
        told = asyncio.Queue[str]()
        watch = SocketWatch(told.put_nowait)
        with ExitStack() as stack:
            listeners = {
                name: stack.enter_context(socket.create_server(("127.0.0.1", 0))) for name in ("a", "b")
            }
            for name, listener in listeners.items():
                watch.switch(name, listener, on=True)
            try:
                async with asyncio.timeout(60):
                    await do(listeners, told, watch)
            finally:
                watch.retire()

    asyncio.run(run())


def connect(listener: socket.socket) -> socket.socket:
    return socket.create_connection(listener.getsockname())


def test_a_waiting_connection_is_told_of_once_and_left_waiting() -> None:
    async def do(listeners: Sockets, told: asyncio.Queue[str], watch: SocketWatch) -> None:
        with connect(listeners["a"]):
            assert await told.get() == "a"
            assert watch.watched == {"b"}, "or the loop would be busy"
            with connect(listeners["b"]):
                assert await told.get() == "b", "whatever became of the other one"
            assert told.empty()
            watch.switch("a", listeners["a"], on=True)
            assert await told.get() == "a", "it waits still"
            listeners["a"].accept()[0].close()

    on_sockets(do)


def test_what_is_not_watched_any_more_is_not_told_of() -> None:
    async def do(listeners: Sockets, told: asyncio.Queue[str], watch: SocketWatch) -> None:
        watch.switch("a", listeners["a"], on=False)
        watch.switch("a", listeners["a"], on=False)
        with connect(listeners["a"]), connect(listeners["b"]):
            assert await told.get() == "b"
            assert told.empty()

    on_sockets(do)


def test_another_socket_takes_the_place_of_the_one_before() -> None:
    async def do(listeners: Sockets, told: asyncio.Queue[str], watch: SocketWatch) -> None:
        watch.drop("b")
        watch.switch("a", listeners["b"], on=True)
        with connect(listeners["a"]), connect(listeners["b"]):
            assert await told.get() == "a"
            await asyncio.sleep(0)
            assert told.empty()

    on_sockets(do)


def test_one_that_has_retired_never_tells_anything() -> None:
    async def do(listeners: Sockets, told: asyncio.Queue[str], watch: SocketWatch) -> None:
        watch.retire()
        watch.switch("a", listeners["a"], on=True)
        assert not watch.watched
        readable = asyncio.Event()
        with connect(listeners["a"]):
            asyncio.get_running_loop().add_reader(listeners["a"], readable.set)
            await readable.wait()
            asyncio.get_running_loop().remove_reader(listeners["a"])
        assert told.empty()

    on_sockets(do)
