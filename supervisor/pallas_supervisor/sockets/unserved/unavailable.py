"""Answers for an agent that nobody serves: 503, Retry-After and why, instead of a refused or hanging connection.

Knows a listening socket and the head of an HTTP request; nothing of states.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, NamedTuple

from pallas_common.http.connections import Phase
from pallas_common.http.descriptors import EXHAUSTED, has_unread

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from pallas_common.http.connections import Connections

MAX_HEAD = 64 * 1024
REQUEST_TIMEOUT = 5.0
ACCEPTS_AT_ONCE = 64
ACCEPT_RETRY = 0.02


class Unavailable(NamedTuple):
    """Why the agent is not served, and in how many whole seconds it is worth asking again."""

    message: str
    retry_after: int


class UnavailableResponder:
    """Accepts on an agent's listening socket while it is on.

    Args:
        listener: the shared, non-blocking listening socket.
        why: asked for every request.
        connections: how many there may be, of all responders together.
    """

    def __init__(
        self, listener: socket.socket, why: Callable[[], Unavailable], connections: Connections
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._why = why
        self._connections = connections
        self._answering: set[_Visitor] = set()
        self._on = False
        self._retired = False
        self._resumption: asyncio.TimerHandle | None = None

    @property
    def is_on(self) -> bool:
        """Whether it accepts."""
        return self._on

    def switch(self, *, on: bool) -> None:
        """Begin or stop to accept; answers under way are finished either way."""
        if on == self._on or self._retired:
            return
        self._on = on
        if on:
            self._loop.add_reader(self._listener, self._accept)
        else:
            self._loop.remove_reader(self._listener)
            if self._resumption is not None:
                self._resumption.cancel()
                self._resumption = None

    def retire(self) -> None:
        """Never accept again, whatever `switch` is called with; answers under way are finished."""
        self.switch(on=False)
        self._retired = True

    def close(self) -> None:
        """Stop for good."""
        self.switch(on=False)
        for visitor in list(self._answering):
            visitor.abort()

    def _accept(self) -> None:
        for _ in range(ACCEPTS_AT_ONCE):
            if not self._connections.has_room():
                self._pause()
                return
            try:
                connection, _ = self._listener.accept()
            except OSError as error:  # nobody there any more, or a worker was quicker
                if error.errno in EXHAUSTED and not self._connections.close_one():
                    self._pause()
                return
            self._connections.make_room()
            visitor = _Visitor(connection, self._why, self._connections, self._answering.discard)
            self._answering.add(visitor)
            if len(self._connections) >= self._connections.limit:
                return  # what is closed for the next one lets go of its descriptor after this turn

    def _pause(self) -> None:
        """Let connections wait: the socket stays readable, and looking at it again at once would be a busy loop."""
        self._loop.remove_reader(self._listener)
        self._resumption = self._loop.call_later(ACCEPT_RETRY, self._resume)

    def _resume(self) -> None:
        self._resumption = None
        self._loop.add_reader(self._listener, self._accept)


class _Visitor:
    """A connection on which a responder answers once; it takes `REQUEST_TIMEOUT` at most."""

    received = 0
    unsent = 0

    def __init__(
        self,
        connection: socket.socket,
        why: Callable[[], Unavailable],
        connections: Connections,
        gone: Callable[[_Visitor], None],
    ) -> None:
        self._connection = connection
        self._why = why
        self._connections = connections
        self._gone = gone
        connection.setblocking(False)
        connections.enter(self, Phase.SILENT)
        self.task = asyncio.create_task(self._answer())
        self.task.add_done_callback(self._leave)

    @property
    def has_news(self) -> bool:
        """Whether the client has sent something that has not been read."""
        return has_unread(self._connection.fileno())

    def abort(self) -> None:
        """Close it without an answer."""
        self.task.cancel()

    def _leave(self, _: asyncio.Task[None]) -> None:
        self._connections.leave(self)
        self._gone(self)
        self._connection.close()  # if it was cancelled before it began

    async def _answer(self) -> None:
        reader, writer = await asyncio.open_connection(sock=self._connection, limit=MAX_HEAD)
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT):
                with contextlib.suppress(asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                    await reader.readuntil(b"\r\n\r\n")
                writer.write(render(self._why()))
                self._connections.enter(self, Phase.IDLE)
                await writer.drain()
                writer.write_eof()
                # Take what the client still sends: closing with unread data would reset the connection,
                # and the answer would be lost.
                while await reader.read(MAX_HEAD):
                    pass
        except (OSError, TimeoutError):
            pass
        finally:
            writer.transport.abort()


def render(unavailable: Unavailable) -> bytes:
    """The whole HTTP response; its JSON body is also a JSON-RPC error without an ID, for MCP clients."""
    body = json.dumps(
        {
            "jsonrpc": "2.0",
            "id": None,
            "error": {
                "code": -32000,
                "message": unavailable.message,
                "data": {"retry_after": unavailable.retry_after},
            },
        }
    ).encode()
    head = (
        "HTTP/1.1 503 Service Unavailable\r\n"
        "Content-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n"
        f"Retry-After: {unavailable.retry_after}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + body
