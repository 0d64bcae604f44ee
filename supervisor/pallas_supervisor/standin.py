"""Answers for an agent that nobody serves: 503, Retry-After and why, instead of a refused or hanging connection.

Knows a listening socket and the head of an HTTP request; nothing of states.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

MAX_HEAD = 64 * 1024
REQUEST_TIMEOUT = 5.0
MAX_AT_ONCE = 256
ACCEPTS_AT_ONCE = 64
EXHAUSTION_PAUSE = 1.0

_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Absence(NamedTuple):
    """Why nobody serves, and in how many whole seconds it is worth asking again."""

    message: str
    retry_after: int


class StandIn:
    """Accepts on an agent's listening socket while it is on.

    Args:
        listener: the shared, non-blocking listening socket.
        absence: asked for every request.
    """

    def __init__(self, listener: socket.socket, absence: Callable[[], Absence]) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._absence = absence
        self._answering: set[asyncio.Task[None]] = set()
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
        """Never accept again, whatever `switch` is told; answers under way are finished."""
        self.switch(on=False)
        self._retired = True

    def close(self) -> None:
        """Stop for good."""
        self.switch(on=False)
        for task in self._answering:
            task.cancel()

    def _accept(self) -> None:
        for _ in range(ACCEPTS_AT_ONCE):
            try:
                connection, _ = self._listener.accept()
            except OSError as error:  # nobody there any more, or a worker was quicker
                if error.errno in _EXHAUSTED:
                    self._pause()
                return
            if len(self._answering) >= MAX_AT_ONCE:
                connection.close()
                continue
            connection.setblocking(False)
            task = self._loop.create_task(self._answer(connection))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)

    def _pause(self) -> None:
        """Let connections wait: the socket stays readable, and looking at it again at once would be a busy loop."""
        self._loop.remove_reader(self._listener)
        self._resumption = self._loop.call_later(EXHAUSTION_PAUSE, self._resume)

    def _resume(self) -> None:
        self._resumption = None
        self._loop.add_reader(self._listener, self._accept)

    async def _answer(self, connection: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=connection, limit=MAX_HEAD)
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT):
                with contextlib.suppress(asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                    await reader.readuntil(b"\r\n\r\n")
                writer.write(render(self._absence()))
                await writer.drain()
                writer.write_eof()
                # Take what the client still sends: closing with unread data would reset the connection,
                # and the answer would be lost.
                while await reader.read(MAX_HEAD):
                    pass
        except (OSError, TimeoutError):
            pass
        finally:
            writer.close()


def render(absence: Absence) -> bytes:
    """The whole HTTP response; its JSON body is also a JSON-RPC error without an ID, for MCP clients."""
    body = json.dumps(
        {
            "jsonrpc": "2.0",
            "id": None,
            "error": {
                "code": -32000,
                "message": absence.message,
                "data": {"retry_after": absence.retry_after},
            },
        }
    ).encode()
    head = (
        "HTTP/1.1 503 Service Unavailable\r\n"
        "Content-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n"
        f"Retry-After: {absence.retry_after}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + body
