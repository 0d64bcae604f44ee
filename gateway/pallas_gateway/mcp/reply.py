"""The body of one HTTP request, and its answer: JSON, or a stream of events once something comes before it.

Knows ASGI and when a client is gone; not what is answered. A client that takes nothing for `STALLED` seconds counts
as gone.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Literal, Self

from pallas_gateway.mcp import wire
from pallas_gateway.mcp.headers import HttpError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.types import Message, Receive, Send

    from pallas_gateway.mcp.surface import Json, Relayed

    type Headers = tuple[tuple[bytes, bytes], ...]

KEEP_ALIVE = 15.0
"""Seconds of silence after which a stream says that it is alive; an answer that takes longer becomes a stream."""
STALLED = 30.0
"""Seconds after which a client that takes nothing is given up."""
UNWATCHED = 0.02
"""Seconds before anybody looks whether the client is still there: most answers take less, and the look is a task."""

JSON = (b"content-type", b"application/json")
STREAM = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)

Gone = Literal["client", "cancelled"]


class ClientGoneError(Exception):
    """The client has closed its connection, or takes nothing."""


async def read_body(receive: Receive, headers: Mapping[str, str], most: int) -> bytes:
    """Return the body of a request.

    Args:
        most: bytes that it may have.

    Raises:
        HttpError: 413.
        ClientGoneError: the client went away.
    """
    length = headers.get("content-length", "0")
    if not length.isdecimal() or len(length) > 18 or int(length) > most:
        raise HttpError(413, f"a body may have {most} bytes")
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        piece = message.get("body", b"")
        size += len(piece)
        if size > most:
            raise HttpError(413, f"a body may have {most} bytes")
        pieces.append(piece)
        if not message.get("more_body", False):
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class Reply:
    """One answer, in the making.

    Args:
        headers: beside those that say what it is.
    """

    def __init__(self, send: Send, headers: Headers = ()) -> None:
        self._send = send
        self._headers = headers
        self._lock = asyncio.Lock()
        self.started = False
        """Whether its status has been sent."""
        self.is_stream = False
        self.ended = False

    async def json(self, body: bytes, status: int = 200, headers: Headers = ()) -> None:
        """Answer with this and nothing else; without a body if that is empty."""
        self.started = self.ended = True
        kind = (JSON,) if body else ()
        length = (b"content-length", str(len(body)).encode())
        start = {
            "type": "http.response.start",
            "status": status,
            "headers": [*kind, length, *self._headers, *headers],
        }
        await self._out(start)
        await self._out({"type": "http.response.body", "body": body})

    async def message(self, body: bytes, status: int = 200, headers: Headers = ()) -> None:
        """Answer with this message of JSON-RPC: the last event where a stream has begun."""
        if self.started:
            await self.events(wire.event(body), last=True)
        else:
            await self.json(body, status, headers)

    async def notify(self, message: Json) -> None:
        """Send a notification before the answer."""
        await self.events(wire.event(wire.write(message)))

    async def ping(self) -> None:
        """Say that it is alive."""
        await self.events(wire.PING)

    async def events(self, events: bytes, *, last: bool = False, status: int = 200) -> None:
        """Send events; the first ones make a stream of the answer. None after the last one."""
        async with self._lock:
            if self.ended:
                return
            if not self.started:
                self.started = self.is_stream = True
                await self._out(
                    {
                        "type": "http.response.start",
                        "status": status,
                        "headers": [*STREAM, *self._headers],
                    }
                )
            self.ended = last
            await self._out({"type": "http.response.body", "body": events, "more_body": not last})

    async def relay(self, relayed: Relayed) -> None:
        """Pass on another server's answer as it comes."""
        body = relayed.body
        if isinstance(body, bytes):
            if self.started:
                await self.events(wire.event(body), last=True)
            else:
                await self.json(body, relayed.status)
            return
        try:
            async for piece in body:
                await self.events(piece, status=relayed.status)
            await self.events(b"", last=True, status=relayed.status)
        finally:
            close = getattr(body, "aclose", None)
            if close is not None:
                await close()

    async def _out(self, message: Message) -> None:
        try:
            async with asyncio.timeout(STALLED):
                await self._send(message)
        except TimeoutError:
            raise ClientGoneError from None
        except OSError:
            raise ClientGoneError from None


class Watch:
    """Ends what the task that makes it is doing, when the client goes away or takes its request back.

    As a context manager it lets nothing out of what that ending raises; `gone` says whether and why it has ended.

    Args:
        keep_alive: is awaited whenever `KEEP_ALIVE` seconds have passed.
        patience: seconds before it looks for the first time.
    """

    def __init__(
        self, receive: Receive, keep_alive: Callable[[], Awaitable[None]], *, patience: float = UNWATCHED
    ) -> None:
        self.gone: Gone | None = None
        self._receive = receive
        self._keep_alive = keep_alive
        self._patience = patience
        self._watching: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._open = True
        self._timer = asyncio.get_running_loop().call_later(self._patience, self._start)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> bool:
        self._open = False
        self._timer.cancel()
        if self._watching is not None:
            self._watching.cancel()
        if self.gone is None:
            return False
        # Also where the ending came too late to be felt: it must not be felt later.
        return self._task.uncancel() == 0 and isinstance(error, (asyncio.CancelledError, ClientGoneError))

    def end(self, why: Gone) -> None:
        """End it, once."""
        if self._open and self.gone is None:
            self.gone = why
            self._task.cancel()

    def _start(self) -> None:
        self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        while True:
            try:
                async with asyncio.timeout(KEEP_ALIVE):
                    while (await self._receive())["type"] != "http.disconnect":
                        pass
            except TimeoutError:
                with contextlib.suppress(ClientGoneError):
                    await self._keep_alive()
                    continue
            self.end("client")
            return
