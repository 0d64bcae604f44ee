"""The accept loop on a listening socket that outlives it, with a small application and real connections."""

from __future__ import annotations

import asyncio
import itertools
import socket
import time
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from pallas_worker import accept
from pallas_worker.accept import HttpServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from starlette.types import Receive, Scope, Send

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


class App:
    """Answers 200 once `go` is set; `began` says that a request has arrived, `ended` how it ended."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.go = asyncio.Event()
        self.ended = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.began.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.ended = "cancelled"
            raise
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})
        self.ended = "answered"


def answering(listener: socket.socket) -> HttpServer:
    """A server that accepts, and answers whatever it is asked."""
    app = App()
    app.go.set()
    http = HttpServer(app, listener)
    http.start()
    return http


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        made.listen(16)
        made.setblocking(False)
        yield made


@asynccontextmanager
async def connected(
    listener: socket.socket,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    try:
        yield reader, writer
    finally:
        writer.close()


async def accepted_one(http: HttpServer) -> None:
    """Wait until the server holds a connection."""
    while not http.connections:  # noqa: ASYNC110 - it has no event for this, and the loop is at work
        await asyncio.sleep(0)


def test_requests_are_answered_on_one_connection(listener: socket.socket) -> None:
    async def run() -> None:
        http = answering(listener)
        async with connected(listener) as (reader, writer):
            for _ in range(2):
                writer.write(REQUEST)
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 200")
                assert b"\r\ndate: " in head
                assert b"connection: close" not in head
                assert await reader.readexactly(2) == b"ok"
            await http.drain(60)
            assert await reader.read() == b""

    asyncio.run(run())


def test_after_stop_a_connection_waits_for_the_next_worker(listener: socket.socket) -> None:
    async def run() -> None:
        old, new = App(), App()
        new.go.set()
        first, second = HttpServer(old, listener), HttpServer(new, listener)
        first.start()
        first.stop_accepting()
        async with connected(listener) as (reader, writer):
            writer.write(REQUEST)
            await first.drain(60)
            second.start()
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
            await second.drain(60)
        assert not old.began.is_set()
        assert listener.fileno() >= 0

    asyncio.run(run())


def test_a_request_in_flight_is_answered_and_its_connection_closed(listener: socket.socket) -> None:
    async def run() -> None:
        app = App()
        http = HttpServer(app, listener)
        http.start()
        async with connected(listener) as (reader, writer):
            writer.write(REQUEST)
            await app.began.wait()
            drained = asyncio.create_task(http.drain(60))
            await asyncio.sleep(0)
            app.go.set()
            answer = await reader.read()
            assert answer.startswith(b"HTTP/1.1 200")
            assert b"connection: close" in answer
            assert answer.endswith(b"ok")
            await drained

    asyncio.run(run())


def test_what_takes_too_long_is_cancelled(listener: socket.socket) -> None:
    async def run() -> App:
        app = App()
        http = HttpServer(app, listener)
        http.start()
        async with connected(listener) as (reader, writer):
            writer.write(REQUEST)
            await app.began.wait()
            await http.drain(0.05)
            assert not (await reader.read()).startswith(b"HTTP/1.1 200")
        return app

    assert asyncio.run(run()).ended == "cancelled"


def test_what_ends_after_its_caller_is_waited_for(listener: socket.socket) -> None:
    async def run() -> str:
        app = App()
        http = HttpServer(app, listener)
        http.start()
        async with connected(listener) as (_, writer):
            writer.write(REQUEST)
            await app.began.wait()
        while http.connections:  # noqa: ASYNC110 - it has no event for this, and the loop is at work
            await asyncio.sleep(0)
        drained = asyncio.create_task(http.drain(60))
        await asyncio.sleep(0)
        app.go.set()
        await drained
        return app.ended

    assert asyncio.run(run()) == "answered"


def test_an_accepted_connection_may_still_send_its_first_request(listener: socket.socket) -> None:
    async def run() -> None:
        http = answering(listener)
        async with connected(listener) as (reader, writer):
            await accepted_one(http)
            drained = asyncio.create_task(http.drain(60))
            await asyncio.sleep(0)
            writer.write(REQUEST)
            assert (await reader.read()).startswith(b"HTTP/1.1 200")
            await drained

    asyncio.run(run())


def test_an_idle_client_that_asks_again_is_answered_and_told_to_leave(listener: socket.socket) -> None:
    async def run() -> None:
        http = answering(listener)
        async with connected(listener) as (reader, writer):
            writer.write(REQUEST)
            await reader.readuntil(b"\r\n\r\nok")
            drained = asyncio.create_task(http.drain(60))
            await asyncio.sleep(0)
            writer.write(REQUEST)
            answer = await reader.read()
            assert answer.startswith(b"HTTP/1.1 200")
            assert b"connection: close" in answer
            await drained

    asyncio.run(run())


def test_a_connection_that_never_asks_does_not_hold_the_drain(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accept, "LINGER", 5)

    async def run() -> None:
        http = HttpServer(App(), listener)
        http.start()
        async with connected(listener) as (reader, _):
            await accepted_one(http)
            await http.drain(60)
            assert await reader.read() == b""

    asyncio.run(run())


def test_in_the_second_half_of_a_drain_idle_connections_are_not_waited_for(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(accept, "LINGER", 10**9)

    async def run() -> None:
        http = answering(listener)
        async with connected(listener) as (reader, writer):
            writer.write(REQUEST)
            await reader.readuntil(b"\r\n\r\nok")
            # No time passes but from one look to the next: a machine that stands still uses nothing up.
            looks, loop = itertools.count(0.0, accept.DRAIN_INTERVAL), asyncio.get_running_loop()
            http._loop = SimpleNamespace(
                time=looks.__next__, remove_reader=loop.remove_reader, call_later=loop.call_later
            )
            await http.drain(2.0)
            assert http.connections == 0
            assert await reader.read() == b"", "it is closed, not reset"

    asyncio.run(run())
    assert caplog.messages == []


def test_time_in_which_nobody_looks_is_no_idleness(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accept, "LINGER", 5)

    async def run() -> None:
        http = answering(listener)
        async with connected(listener) as (reader, writer):
            writer.write(REQUEST)
            await reader.readuntil(b"\r\n\r\nok")
            drained = asyncio.create_task(http.drain(60))
            await asyncio.sleep(0)
            time.sleep(20 * accept.DRAIN_INTERVAL)  # noqa: ASYNC251 - as if the machine stood still
            await asyncio.sleep(0)
            writer.write(REQUEST)
            assert (await reader.read()).startswith(b"HTTP/1.1 200")
            await drained

    asyncio.run(run())


def test_an_exchange_of_its_own_is_answered_before_anything_is_accepted(listener: socket.socket) -> None:
    async def run() -> None:
        app = App()
        app.go.set()
        server = HttpServer(app, listener)
        response = await server.exchange(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert response.startswith(b"HTTP/1.1 200 ")
        assert response.endswith(b"ok")
        assert server.connections == 0

    asyncio.run(run())
