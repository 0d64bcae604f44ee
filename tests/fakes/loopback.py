"""An ASGI application on a real loopback socket in a thread: it records requests and injects faults.

Knows sockets, uvicorn and faults; must not know what the application speaks (MCP, an LLM provider's API).
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.responses import PlainTextResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

START_TIMEOUT = 120.0
"""Seconds that a server may take to start or to stop on a crowded machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One request as it arrived; header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON, or None if it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    @property
    def rpc_method(self) -> str | None:
        """The JSON-RPC method in the body, if there is one."""
        return self.json.get("method") if isinstance(self.json, dict) else None

    @property
    def bearer(self) -> str | None:
        """The bearer token of the `Authorization` header."""
        scheme, _, token = self.headers.get("authorization", "").partition(" ")
        return token if scheme.lower() == "bearer" else None


def has_text(text: str, requests: list[Recorded]) -> bool:
    """Whether the body of one of the requests has this text."""
    return any(text in request.body.decode() for request in requests)


def has_bearer(token: str, requests: list[Recorded]) -> bool:
    """Whether one of the requests has this token."""
    return any(request.bearer == token for request in requests)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What happens to a request instead of, or before, its normal answer.

    In this order: wait `delay` seconds; wait until `Loopback.release()` if `hold`; reset the connection if
    `reset`; answer `status` with `headers` and `body` if that is set; otherwise answer normally.
    """

    delay: float = 0.0
    hold: bool = False
    reset: bool = False
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = "injected fault"


class Loopback:
    """A running server. Create it with `serve`."""

    def __init__(self, app: ASGIApp, fault: Callable[[Recorded], Fault | None] | None, port: int) -> None:
        self.requests: list[Recorded] = []
        """All requests so far, in the order of their arrival."""
        self.gone: list[Recorded] = []
        """The requests whose client went away before it had the whole answer."""
        self.fault = fault
        """Decides on each request; may be replaced while the server runs."""
        self._app = app
        self._arrived = threading.Condition()
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", port))
        self._socket.listen(1024)
        self.port: int = self._socket.getsockname()[1]
        config = uvicorn.Config(
            self, http=H11Protocol, ws="none", log_config=None, lifespan="on", backlog=1024
        )
        self._server = _Server(config)
        self._thread = threading.Thread(target=self._serve, name=f"loopback-{self.port}", daemon=True)

    @property
    def origin(self) -> str:
        """`http://127.0.0.1:PORT`."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def connections(self) -> int:
        """How many TCP connections are open."""
        return len(self._server.server_state.connections)

    def wait_for_gone(
        self, matches: Callable[[list[Recorded]], bool], timeout: float = START_TIMEOUT
    ) -> None:
        """Wait until `matches` is true of the requests whose client went away; call it from a thread.

        Raises:
            TimeoutError: it did not become true within `timeout` seconds.
        """
        with self._arrived:
            if not self._arrived.wait_for(lambda: matches(self.gone), timeout):
                raise TimeoutError(f"{len(self.gone)} clients went away, none that was waited for")

    def wait_for(self, matches: Callable[[list[Recorded]], bool], timeout: float = START_TIMEOUT) -> None:
        """Wait until `matches` is true of the requests so far; call it from a thread, not from a loop.

        Raises:
            TimeoutError: it did not become true within `timeout` seconds.
        """
        with self._arrived:
            if not self._arrived.wait_for(lambda: matches(self.requests), timeout):
                raise TimeoutError(f"{len(self.requests)} requests, none that was waited for")

    def look_again(self) -> None:
        """Have those who wait look again, for what the application has made of a request is news, too."""
        with self._arrived:
            self._arrived.notify_all()

    def release(self) -> None:
        """Let every request go on that a `Fault(hold=True)` holds, and those that come later."""
        self._server.in_loop(self._server.released.set)

    def start(self) -> None:
        """Start the thread and wait until the application's lifespan has begun."""
        self._thread.start()
        if not self._server.ready.wait(START_TIMEOUT) or not self._server.started:
            raise RuntimeError("the loopback server did not start")

    def stop(self) -> None:
        """Abort every connection and wait for the thread to end; harmless when it has ended."""
        self._server.in_loop(self._server.stopped.set)
        self._thread.join(START_TIMEOUT)
        self._socket.close()
        if self._thread.is_alive():
            raise RuntimeError("the loopback server did not stop")

    def _serve(self) -> None:
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._server.ready.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        recorded = Recorded(
            method=scope["method"],
            path=scope["path"],
            headers={name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]},
            body=(body := await _read(receive)),
        )
        fault = self.fault(recorded) if self.fault else None
        with self._arrived:
            self.requests.append(recorded)
            self._arrived.notify_all()
        answer = _Answer(send)
        watching = asyncio.create_task(self._watch(recorded, receive, answer))
        try:
            await self._answer(recorded, body, fault, scope, receive, answer)
        finally:
            watching.cancel()

    async def _watch(self, recorded: Recorded, receive: Receive, answer: _Answer) -> None:
        """Notice that the client goes away before it has its answer."""
        while (await receive())["type"] != "http.disconnect":
            pass
        answer.gone.set()
        if not answer.ended:
            with self._arrived:
                self.gone.append(recorded)
                self._arrived.notify_all()

    async def _answer(
        self,
        recorded: Recorded,
        body: bytes,
        fault: Fault | None,
        scope: Scope,
        receive: Receive,
        send: _Answer,
    ) -> None:
        if fault is not None:
            await asyncio.sleep(fault.delay)
            if fault.hold and await _first(send.gone, self._server.released):
                return
            if fault.reset:
                send.ended = True
                self._server.reset(scope["client"])
                return
            if fault.status is not None:
                answer = PlainTextResponse(fault.body, fault.status, dict(fault.headers))
                await answer(scope, receive, send)
                return
        await self._app(scope, _replay(body, receive), send)


class _Answer:
    """A `send` that knows whether all of the answer is on its way."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.ended = False
        self.gone = asyncio.Event()
        """Nobody waits for the rest of it."""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.body" and not message.get("more_body"):
            self.ended = True
        await self._send(message)


@contextmanager
def serve(
    app: ASGIApp, *, fault: Callable[[Recorded], Fault | None] | None = None, port: int = 0
) -> Iterator[Loopback]:
    """Run `app` on 127.0.0.1 until the block ends; port 0 picks a free one."""
    server = Loopback(app, fault, port)
    server.start()
    try:
        yield server
    finally:
        server.stop()


class _Server(uvicorn.Server):
    """uvicorn without its ticks: it starts at once, and at the end it aborts what is still open."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.released = asyncio.Event()
        self.stopped = asyncio.Event()

    def in_loop(self, act: Callable[[], None]) -> None:
        """Call `act` in the server's thread, unless its loop is gone."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(act)

    def reset(self, client: tuple[str, int]) -> None:
        """Close the connection from `client` with a TCP reset."""
        for connection in self.server_state.connections:
            if getattr(connection, "client", None) == tuple(client):
                transport = connection.transport
                linger = struct.pack("ii", 1, 0)
                transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                transport.abort()
                return

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        self.ready.set()

    async def main_loop(self) -> None:
        await self.stopped.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        tasks = list(self.server_state.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.lifespan.shutdown()


async def _first(one: asyncio.Event, other: asyncio.Event) -> bool:
    """Wait until one of the events is set; whether `one` is."""
    waiting = [asyncio.create_task(event.wait()) for event in (one, other)]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        return one.is_set()
    finally:
        for task in waiting:
            task.cancel()


async def _read(receive: Receive) -> bytes:
    """The whole body of a request, as far as it came."""
    chunks = []
    while (message := await receive())["type"] == "http.request":
        chunks.append(message.get("body", b""))
        if not message.get("more_body"):
            break
    return b"".join(chunks)


def _replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body that was read, then what comes after it."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return pending.pop() if pending else await receive()

    return replayed
