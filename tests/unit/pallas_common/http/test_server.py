"""The accept loop on a listening socket that outlives it, with a small application and real connections."""

from __future__ import annotations

import asyncio
import errno
import itertools
import socket
import time
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pallas_common.http import connections
from pallas_common.http import server as module
from pallas_common.http.connections import Connections
from pallas_common.http.server import HttpServer

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


def server(app: App, listener: socket.socket, limit: int = 10) -> HttpServer:
    """A server that does not accept yet."""
    return HttpServer(app, listener, Connections("tests", limit, grace=0.0))


def serving(app: App, listener: socket.socket, limit: int = 10) -> HttpServer:
    """A server that accepts."""
    http = server(app, listener, limit)
    http.start()
    return http


def answering(listener: socket.socket, limit: int = 10) -> HttpServer:
    """A server that accepts, and answers whatever it is asked."""
    app = App()
    app.go.set()
    return serving(app, listener, limit)


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


CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


async def send_without_end(writer: asyncio.StreamWriter) -> None:
    """Send more and more of a body, in pieces of one byte."""
    while True:
        writer.write(b"1\r\nA\r\n" * 10_000)
        await writer.drain()


def test_what_comes_of_a_body_after_the_answer_is_bounded(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LEAVE_TIME", 0.0)

    async def run() -> None:
        http = answering(listener)
        async with connected(listener) as (reader, writer):
            writer.write(CHUNKED)
            assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
            with pytest.raises(ConnectionError):
                await send_without_end(writer)
        await http.drain(60)

    asyncio.run(run())


def test_a_small_body_may_come_after_the_answer(listener: socket.socket) -> None:
    async def run() -> None:
        http = answering(listener)
        async with connected(listener) as (reader, writer):
            for _ in range(2):
                writer.write(CHUNKED)
                assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
                writer.write(b"7530\r\n" + b"x" * 30_000 + b"\r\n0\r\n\r\n")
        await http.drain(60)

    asyncio.run(run())


def test_after_stop_a_connection_waits_for_the_next_worker(listener: socket.socket) -> None:
    async def run() -> None:
        old, new = App(), App()
        new.go.set()
        first, second = server(old, listener), server(new, listener)
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


def test_one_that_nobody_can_be_about_to_ask_leaves_and_may_come_back(listener: socket.socket) -> None:
    async def run() -> None:
        http = answering(listener)
        async with connected(listener) as (reader, writer):
            await accepted_one(http)
            assert not http.leave_if_quiet(0.0), "its first request may come at any moment"
            writer.write(REQUEST)
            await reader.readuntil(b"ok")
            assert not http.leave_if_quiet(60.0), "it has been idle for less"
            writer.write(REQUEST)
            assert not http.leave_if_quiet(0.0), "the request has come"
            await reader.readuntil(b"ok")
            assert http.leave_if_quiet(0.0)
            assert await reader.read() == b""
        async with connected(listener) as (reader, writer):
            writer.write(REQUEST)
            await asyncio.sleep(0.01)
            assert not http.connections, "it waits for whoever accepts next"
            assert not http.leave_if_quiet(0.0)
            http.accept_again()
            assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
        await http.drain(60)

    asyncio.run(run())


def test_one_on_whose_port_a_connection_waits_does_not_leave(listener: socket.socket) -> None:
    async def run() -> None:
        http = answering(listener)
        with socket.create_connection(listener.getsockname()) as client:  # the loop has not looked yet
            assert not http.leave_if_quiet(0.0)
            client.setblocking(False)
            await asyncio.get_running_loop().sock_sendall(client, REQUEST)
            assert await asyncio.get_running_loop().sock_recv(client, 100)
        await http.drain(60)

    asyncio.run(run())


def test_a_request_in_flight_is_answered_and_its_connection_closed(listener: socket.socket) -> None:
    async def run() -> None:
        app = App()
        http = serving(app, listener)
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


@pytest.mark.parametrize(
    ("request_", "rest"),
    [
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", b"no chunk\r\n"),
        (b"HEAD / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", b"more"),
    ],
    ids=["a body that is none", "more than was announced"],
)
@pytest.mark.parametrize("when", ["before its answer", "within its answer", "after its answer"])
def test_what_is_no_http_ends_its_connection_and_raises_nowhere(
    listener: socket.socket, when: str, request_: bytes, rest: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[object] = []
    proceed, reached, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        for moment, message in (
            ("before its answer", {"type": "http.response.start", "status": 200, "headers": []}),
            ("within its answer", {"type": "http.response.body", "body": b"ok"}),
            ("after its answer", None),
        ):
            if moment == when:
                reached.set()
                await proceed.wait()
            if message is not None:
                await send(message)
        ended.set()

    async def run() -> bytes:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: told.append(context))
        http = HttpServer(app, listener, Connections("tests", 10, grace=0.0))
        http.start()
        async with connected(listener) as (reader, writer):
            writer.write(request_)
            await reached.wait()
            writer.write(rest)
            answer = await reader.read()
        proceed.set()
        await ended.wait()
        await http.drain(60)
        return answer

    answer = asyncio.run(run())
    assert answer.startswith(b"HTTP/1.1 400" if when == "before its answer" else b"HTTP/1.1 200")
    assert told == []
    assert "Exception in ASGI application" not in caplog.text


def test_what_takes_too_long_is_cancelled(listener: socket.socket) -> None:
    async def run() -> App:
        app = App()
        http = serving(app, listener)
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
        http = serving(app, listener)
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
    monkeypatch.setattr(module, "LINGER", 5)

    async def run() -> None:
        http = serving(App(), listener)
        async with connected(listener) as (reader, _):
            await accepted_one(http)
            await http.drain(60)
            assert await reader.read() == b""

    asyncio.run(run())


def test_in_the_second_half_of_a_drain_idle_connections_are_not_waited_for(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "LINGER", 10**9)

    async def run() -> None:
        http = answering(listener)
        async with connected(listener) as (reader, writer):
            writer.write(REQUEST)
            await reader.readuntil(b"\r\n\r\nok")
            # No time passes but from one look to the next: a machine that stands still uses nothing up.
            looks, loop = itertools.count(0.0, module.DRAIN_INTERVAL), asyncio.get_running_loop()
            still: Any = SimpleNamespace(
                time=looks.__next__, remove_reader=loop.remove_reader, call_later=loop.call_later
            )
            http._loop = still
            await http.drain(2.0)
            assert http.connections == 0
            assert await reader.read() == b"", "it is closed, not reset"

    asyncio.run(run())
    assert caplog.messages == []


def test_time_in_which_nobody_looks_is_no_idleness(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LINGER", 5)

    async def run() -> None:
        http = answering(listener)
        async with connected(listener) as (reader, writer):
            writer.write(REQUEST)
            await reader.readuntil(b"\r\n\r\nok")
            drained = asyncio.create_task(http.drain(60))
            await asyncio.sleep(0)
            time.sleep(20 * module.DRAIN_INTERVAL)  # noqa: ASYNC251 - as if the machine stood still
            await asyncio.sleep(0)
            writer.write(REQUEST)
            assert (await reader.read()).startswith(b"HTTP/1.1 200")
            await drained

    asyncio.run(run())


def test_an_exchange_of_its_own_is_answered_before_anything_is_accepted(listener: socket.socket) -> None:
    async def run() -> None:
        app = App()
        app.go.set()
        http = server(app, listener)
        response = await http.exchange(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert response.startswith(b"HTTP/1.1 200 ")
        assert response.endswith(b"ok")
        assert http.connections == 0

    asyncio.run(run())


@pytest.mark.parametrize("turns", range(8))
def test_a_drain_at_any_turn_of_the_loop_resets_nobody(listener: socket.socket, turns: int) -> None:
    async def run() -> bytes:
        first = answering(listener)
        with socket.create_connection(listener.getsockname()) as client:
            client.sendall(REQUEST)
            client.setblocking(False)
            for _ in range(turns):
                await asyncio.sleep(0)
            await first.drain(60)
            second = answering(listener)  # which has what is left in the backlog
            answer = await asyncio.get_running_loop().sock_recv(client, 65536)
            await second.drain(60)
        return answer

    assert asyncio.run(asyncio.wait_for(run(), 60)).startswith(b"HTTP/1.1 200")


async def asked(listener: socket.socket, request: bytes = REQUEST) -> bytes:
    """The head of the answer to a request on a connection of its own."""
    async with connected(listener) as (reader, writer):
        writer.write(request)
        return await reader.readuntil(b"\r\n\r\n")


BEGINNINGS = {
    "silent": b"",
    "half a head": b"GET / HTTP/1.1\r\nHost:",
    "no body": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n",
    "idle": REQUEST,
}


class Reader(App):
    """Reads the body before it answers."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        while (message := await receive())["type"] == "http.request" and message.get("more_body"):
            pass
        if message["type"] == "http.request":
            await super().__call__(scope, receive, send)


@pytest.mark.parametrize("beginning", BEGINNINGS.values(), ids=BEGINNINGS)
def test_who_waits_longest_makes_room_for_who_comes(listener: socket.socket, beginning: bytes) -> None:
    async def run() -> None:
        app = Reader()
        app.go.set()
        http = serving(app, listener, 4)
        crowd = [await asyncio.open_connection(*listener.getsockname()) for _ in range(12)]
        for _, writer in crowd:
            writer.write(beginning)
        for _ in range(3):
            assert (await asked(listener)).startswith(b"HTTP/1.1 200")
        assert http.connections <= 5, "one may be on its way out"
        for reader, _ in crowd[:8]:
            await reader.read()  # to the end: it was closed
        for _, writer in crowd:
            writer.close()
        await http.drain(60)

    asyncio.run(asyncio.wait_for(run(), 60))


def test_a_request_in_flight_keeps_its_connection_whoever_comes(listener: socket.socket) -> None:
    async def run() -> None:
        app = App()
        http = serving(app, listener, 1)
        async with connected(listener) as (reader, writer):
            writer.write(REQUEST)
            await app.began.wait()
            waiting = asyncio.create_task(asked(listener))
            while "accept" not in http._timers:  # noqa: ASYNC110 - it has no event for this
                await asyncio.sleep(0)
            app.go.set()
            assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
            assert (await waiting).startswith(b"HTTP/1.1 200"), "it has waited in the backlog"
        await http.drain(60)

    asyncio.run(asyncio.wait_for(run(), 60))


def test_what_keeps_us_waiting_too_long_is_closed(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_INTERVAL", 0.01)
    monkeypatch.setattr(connections, "HEAD_TIMEOUT", 0.05)
    monkeypatch.setattr(connections, "BODY_TIMEOUT", 0.05)

    async def run() -> None:
        app = Reader()
        http = serving(app, listener)
        async with connected(listener) as (served, writer):
            writer.write(REQUEST)
            await app.began.wait()
            for name in ("silent", "half a head", "no body"):
                async with connected(listener) as (late, slow):
                    slow.write(BEGINNINGS[name])
                    assert await late.read() == b""
            app.go.set()
            assert (await served.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
        while "look" in http._timers:  # noqa: ASYNC110 - without connections nobody looks any more
            await asyncio.sleep(0.001)
        await http.drain(60)

    asyncio.run(asyncio.wait_for(run(), 60))


class Large(App):
    """Answers with more than the buffers of the system hold, and knows whether it all went."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(100):
            await send({"type": "http.response.body", "body": b"x" * 1_000_000, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def test_an_answer_that_is_never_read_is_given_up(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_INTERVAL", 0.01)

    async def run() -> None:
        http = HttpServer(Large(), listener, Connections("tests", 10, stall_timeout=0.05))
        http.start()
        with socket.create_connection(listener.getsockname()) as client:
            client.sendall(REQUEST)
            await accepted_one(http)
            while http.connections:  # noqa: ASYNC110 - it has no event for this
                await asyncio.sleep(0.001)
        await http.drain(60)

    asyncio.run(asyncio.wait_for(run(), 60))


class Exhausted:
    """A listening socket on which no descriptor is left, so many times."""

    def __init__(self, listener: socket.socket, left: int) -> None:
        self._listener = listener
        self.left = left

    def accept(self) -> tuple[socket.socket, object]:
        if self.left:
            self.left -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return self._listener.accept()

    def setblocking(self, flag: bool) -> None:
        self._listener.setblocking(flag)

    def fileno(self) -> int:
        return self._listener.fileno()


def test_without_descriptors_it_says_so_once_and_goes_on_later(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "ACCEPT_RETRY", 0.001)

    async def run() -> None:
        http = answering(Exhausted(listener, 5))  # type: ignore[arg-type]  # has what is used of a socket
        assert (await asked(listener)).startswith(b"HTTP/1.1 200")
        await http.drain(60)

    asyncio.run(asyncio.wait_for(run(), 60))
    assert caplog.messages == ["cannot accept connections: [Errno 24] Too many open files"]


def test_without_descriptors_who_waits_longest_makes_room(
    listener: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        exhausted = Exhausted(listener, 0)
        http = answering(exhausted)  # type: ignore[arg-type]  # has what is used of a socket
        async with connected(listener) as (silent, _):
            await accepted_one(http)
            exhausted.left = 1
            assert (await asked(listener)).startswith(b"HTTP/1.1 200")
            assert await silent.read() == b""
        await http.drain(60)

    asyncio.run(asyncio.wait_for(run(), 60))
    assert caplog.messages == []


def test_small_answers_are_not_held_back(listener: socket.socket) -> None:
    async def run() -> None:
        http = answering(listener)
        async with connected(listener):
            await accepted_one(http)
            (connection,) = http._open_connections()
            accepted = connection.transport.get_extra_info("socket")
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
        await http.drain(60)

    asyncio.run(run())
