"""A site of somebody's own with the gateway behind it: a page without content, and `/api/` passed on with a token.

An `EventSource` can send no token, so that a site whose pages use one has such a proxy. What it passes on stays as it
is but for Host, Authorization and Connection; it can drop a connection in the middle of an event.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from real.conformance.proxy import head, read_head

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import Callable, Iterator

PATIENCE = 60.0
_PAGE = b"<!doctype html><title>A site</title><link rel='icon' href='data:,'><body></body>"


class Passed(NamedTuple):
    """A request that was passed on."""

    path: str
    headers: dict[str, str]
    status: int
    """Of its answer."""


class Site:
    """A running one.

    Args:
        hold: the first answer that is a stream is passed on until a little behind so many of its events; see `drop`.
    """

    def __init__(self, gateway: int, token: str, hold: int) -> None:
        self.port = 0
        self.passed: list[Passed] = []
        self._gateway = gateway
        self._token = token
        self._hold: int | None = hold
        self._dropped = asyncio.Event()
        self._news = threading.Condition()
        self._ended = asyncio.Event()

    @property
    def url(self) -> str:
        """Of the page."""
        return f"http://127.0.0.1:{self.port}/"

    def wait_for(self, matches: Callable[[list[Passed]], bool]) -> None:
        """Wait until this is true of the requests that were passed on."""
        with self._news:
            assert self._news.wait_for(lambda: matches(self.passed), PATIENCE), self.passed

    async def run(self, started: threading.Event) -> None:
        """Serve until `stop`."""
        self._loop = asyncio.get_running_loop()
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        await self._ended.wait()
        server.close()

    def stop(self) -> None:
        """End `run`; from another thread."""
        self._loop.call_soon_threadsafe(self._ended.set)

    def drop(self) -> None:
        """Drop the connection that is held, as a network does that breaks; from another thread."""
        self._loop.call_soon_threadsafe(self._dropped.set)

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            line, headers = await read_head(reader)
            path = line.split()[1]
            if path.startswith("/api/"):
                await self._pass_on(path, line, headers, writer)
            else:
                own = {"content-type": "text/html", "connection": "close"}
                writer.write(head("HTTP/1.1 200 OK", own, _PAGE) + _PAGE)
                await writer.drain()
        writer.close()

    async def _pass_on(self, path: str, line: str, headers: dict[str, str], writer: StreamWriter) -> None:
        more = {
            "host": f"127.0.0.1:{self._gateway}",
            "authorization": f"Bearer {self._token}",
            "connection": "close",
        }
        there, asking = await asyncio.open_connection("127.0.0.1", self._gateway)
        try:
            asking.write(head(line, headers | more))
            first, answered = await read_head(there)
            with self._news:
                self.passed.append(Passed(path, headers, int(first.split()[1])))
                self._news.notify_all()
            writer.write(head(first, answered))
            hold, events = None, 0
            if answered.get("content-type", "").startswith("text/event-stream"):
                hold, self._hold = self._hold, None
            # Byte by byte, so that it is known what has been passed on; the chunks of HTTP have no two line feeds.
            last = b""
            while piece := await there.read(1 if hold is not None else 64 * 1024):
                writer.write(piece)
                events += piece == last == b"\n"
                last = piece
                await writer.drain()
                if hold is not None and events == hold and piece == b"{":
                    await self._dropped.wait()
                    _reset(writer)
                    return
        finally:
            asking.close()


def _reset(writer: StreamWriter) -> None:
    """End a connection without its end: what its reader has not read yet may be lost as well."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@contextmanager
def run_site(gateway: int, token: str, *, hold: int) -> Iterator[Site]:
    """Run one until the block ends."""
    site, started = Site(gateway, token, hold), threading.Event()
    thread = threading.Thread(target=asyncio.run, args=(site.run(started),), name="site", daemon=True)
    thread.start()
    assert started.wait(PATIENCE)
    try:
        yield site
    finally:
        site.stop()
        thread.join(PATIENCE)
