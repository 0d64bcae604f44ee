"""One connection of HTTP/1.1 to another server: one request at a time, its answer whole or in pieces.

What comes is hostile: its head, its body and the waiting for them are bounded, and what comes unasked closes it.
"""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast, override

import httptools

from pallas_common.http.descriptors import has_unread
from pallas_gateway.relay.http.errors import (
    LateError,
    LostError,
    NoConnectionError,
    RelayError,
    WrongAnswerError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

LARGEST_HEAD = 64 * 1024
"""Bytes of an answer's head."""
PAUSE_AT = 256 * 1024
"""Bytes of a stream that nobody has taken, from which on nothing more is read."""
IDLE = 4.0
"""Seconds for which a connection is kept for the next request. Many servers close after five, and a request that
crosses with that could not be told from one that was taken."""
DRAIN_TIME = 1.0
"""Seconds for the end of a stream whose last message has come."""
_KEPT_ALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)
"""A machine that has gone without a word ends a stream that waits for it after a minute (tcp(7))."""
LONGEST_IDLE = 60.0
"""Seconds, where the server says by `Keep-Alive` that it waits longer."""


@dataclass(slots=True)
class Response:
    """An answer's head, and its body where it is whole."""

    status: int
    headers: dict[str, str]
    """Names in lower case; of several of a name the last."""
    body: bytes | None
    """None for an event stream: read `pieces`."""
    connection: Connection
    number: int
    """Of the request on the connection: what is left of an answer must not reach the next one."""

    @property
    def is_current(self) -> bool:
        """Whether the connection has not gone on to another request."""
        return self.connection.number == self.number

    @property
    def content_type(self) -> str:
        """Without parameters, in lower case."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def unlimited(self) -> None:
        """Let the rest take as long as it does."""
        if self.is_current:
            self.connection.stop_clock()

    def abandon(self) -> None:
        """Close the connection if the answer is not over: the server hears that nobody listens."""
        if self.is_current:
            self.connection.abandon()

    def finish(self) -> None:
        """All that counts has come: what is left is thrown away, and the connection kept."""
        if self.is_current:
            self.connection.finish()

    async def pieces(self) -> AsyncGenerator[bytes]:
        """The body as it comes. Leaving before its end closes the connection.

        Raises:
            RelayError: the stream broke off, or was too late.
        """
        try:
            while self.is_current and (piece := await self.connection.next_piece()):
                yield piece
        finally:
            self.abandon()


class Connection(asyncio.Protocol):
    """A connection and the request on it.

    Args:
        done: called when the connection is free for the next request, or of no more use.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, done: Callable[[Connection], None]) -> None:
        self.number = 0
        self._loop = loop
        self._done = done
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._answer: asyncio.Future[Response] | None = None
        self._clock: asyncio.TimerHandle | None = None
        self._pieces: list[bytes] = []
        self._size = 0
        self._waiting: asyncio.Future[None] | None = None
        self._failure: RelayError | None = None
        self._headers: dict[str, str] = {}
        self._status = 0
        self._head_size = 0
        self._most = 0
        self._streamed = False
        self._over = True
        self._paused = False
        self._draining = False
        self._held = False
        self._reusable = True
        self._idle = IDLE
        self._idle_since = 0.0

    @property
    def is_reusable(self) -> bool:
        """Whether the next request may go over it: it is open, and nothing has come unasked."""
        transport = self._transport
        if transport is None or not self._reusable or transport.is_closing():
            return False
        if self._loop.time() - self._idle_since > self._idle:
            return False
        return not has_unread(transport.get_extra_info("socket").fileno())

    async def send(self, request: bytes, *, timeout: float | None, most: int) -> Response:
        """Send a request and wait for the answer: the whole of it, or the head of an event stream.

        Args:
            timeout: seconds until the end of the answer, of a stream too.
            most: bytes of the body, if it is no stream.

        Raises:
            RelayError: there is none.
        """
        transport = self._transport
        self._begin(most)
        if transport is None or transport.is_closing():
            error = NoConnectionError("the connection was closed before anything was sent")
            self._fail(error)
            raise error
        answer: asyncio.Future[Response] = self._loop.create_future()
        self._answer = answer
        if timeout is not None:
            self._clock = self._loop.call_later(timeout, self._late, timeout)
        transport.write(request)
        try:
            return await answer
        except asyncio.CancelledError:
            self.abort()
            raise
        finally:
            if self._answer is answer:  # else the connection has gone on to the next request already
                self._answer = None

    async def next_piece(self) -> bytes:
        """What has come of a stream since the last time; nothing at its end."""
        while not self._pieces:
            if self._failure is not None:
                raise self._failure
            if self._over:
                self._release()
                return b""
            self._waiting = self._loop.create_future()
            await self._waiting
        piece = b"".join(self._pieces)
        self._pieces.clear()
        self._size = 0
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return piece

    def stop_clock(self) -> None:
        """No time limit from now on."""
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def abandon(self) -> None:
        """Close it if its answer is not over."""
        if not self._over and not self._draining:
            self.abort()
        self._release()

    def finish(self) -> None:
        """Nobody reads on, but the end of the stream is near: take it, so that the connection can be kept."""
        if self._over:
            self._release()
            return
        self._draining = True
        self._pieces.clear()
        self._size = 0
        self.stop_clock()
        self._clock = self._loop.call_later(DRAIN_TIME, self.abort)
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()

    def abort(self) -> None:
        """Close it at once."""
        self._fail(LostError("the connection was closed"))

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass of it
        own = transport.get_extra_info("socket")
        if own is not None and own.family != socket.AF_UNIX:
            for level, option, value in _KEPT_ALIVE:
                own.setsockopt(level, option, value)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._reusable = False
        if self._over:
            self._done(self)
            return
        untouched = self._head_size == 0
        self._fail(LostError("the connection ended before the whole answer was there", untouched=untouched))

    @override
    def eof_received(self) -> bool:
        self._reusable = False
        if not self._over and self._streamed_to_the_end():
            self._complete()
        return False

    @override
    def data_received(self, data: bytes) -> None:
        if self._refuses_unasked():
            return
        if not self._streamed:
            self._head_size += len(data) if not self._status else 0
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            if not self._refuses_unasked():
                self._fail(WrongAnswerError("what came is no answer of HTTP"))
            return
        if not self._over and not self._status and self._head_size > LARGEST_HEAD:
            self._fail(WrongAnswerError("the answer's head is too large"))

    def _refuses_unasked(self) -> bool:
        """Whether there is no request: the next one would take for its answer what comes now."""
        if self._over:
            self._reusable = False
            self._close()
        return self._over

    # What httptools calls.

    def on_message_begin(self) -> None:
        """Another answer begins."""
        if self._over:
            self._reusable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """One line of the head, or of what comes after chunks, which counts for nothing."""
        if not self._status:
            self._headers[name.decode("latin-1").lower()] = value.decode("latin-1").strip()

    def on_headers_complete(self) -> None:
        """The head is whole."""
        status = self._parser.get_status_code()
        if status < 200:  # 100 Continue, 103 Early Hints
            self._headers = {}
            return
        self._status = status
        response = self._response(None)
        if response.content_type == "text/event-stream":
            self._streamed = True
            self._resolve(response)

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        if self._over or self._failure is not None:
            return
        self._size += len(body)
        if self._draining:
            if self._size > PAUSE_AT:
                self.abort()
            return
        self._pieces.append(body)
        if not self._streamed:
            if self._size > self._most:
                self._fail(WrongAnswerError(f"the answer is larger than {self._most // 1024} KiB"))
        else:
            self._wake()
            if self._size > PAUSE_AT and not self._paused and self._transport is not None:
                self._paused = True
                self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """The answer is over."""
        if not self._status or self._over:
            return
        self._reusable = self._reusable and self._parser.should_keep_alive()
        self._complete()

    # What they lead to.

    def _begin(self, most: int) -> None:
        self.number += 1
        self._pieces, self._size = [], 0
        self._headers, self._status, self._head_size = {}, 0, 0
        self._most = most
        self._streamed = self._paused = self._draining = False
        self._over = False
        self._failure = None

    def _response(self, body: bytes | None) -> Response:
        return Response(self._status, self._headers, body, self, self.number)

    def _resolve(self, response: Response) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(response)

    def _streamed_to_the_end(self) -> bool:
        """Whether the end of the connection is the end of the body (RFC 9112, 6.3)."""
        headers = self._headers
        return bool(self._status) and "content-length" not in headers and "transfer-encoding" not in headers

    def _complete(self) -> None:
        self._over = True
        self.stop_clock()
        if self._streamed:
            self._wake()
        else:
            body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
            self._pieces, self._size = [], 0
            self._resolve(self._response(body))
        if said := self._headers.get("keep-alive"):
            self._idle = _idle_time(said)
        if self._transport is None or self._transport.get_write_buffer_size():
            self._reusable = False  # it answered before it had all
        if not self._reusable:
            self._close()
        self._idle_since = self._loop.time()
        self._held = True
        if not self._streamed or self._draining:
            self._release()

    def _release(self) -> None:
        """Give it back, once whoever reads has seen the end: the next request would take what is left."""
        if self._held:
            self._held = False
            self._done(self)

    def _fail(self, error: RelayError) -> None:
        self._reusable = False
        self.stop_clock()
        self._close()
        if self._over:
            return
        self._over = True
        self._failure = error
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
        self._wake()
        self._done(self)

    def _late(self, timeout: float) -> None:
        self._fail(LateError(f"no answer within {timeout:g} s"))

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


def _idle_time(said: str) -> float:
    """Seconds for which the server keeps a connection, less what a request may be on its way; by `Keep-Alive`."""
    for part in said.split(","):
        name, _, value = part.strip().partition("=")
        if name.lower() == "timeout" and value.isascii() and value.isdigit():
            return min(float(value[:6]) - 1.0, LONGEST_IDLE)
    return IDLE
