"""HTTP on a listening socket that is not ours alone: accept, serve, stop accepting between two connections.

Knows sockets and uvicorn's HTTP protocol; must not know MCP. Never binds, never closes the listening socket:
the supervisor has its own copy, and what waits in the backlog belongs to the next worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import socket
import struct
import termios
import time
from collections import Counter
from email.utils import formatdate
from typing import TYPE_CHECKING

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from pallas_registry.logs import get_logger

if TYPE_CHECKING:
    from starlette.types import ASGIApp

_log = get_logger("pallas.worker.accept")

KEEP_ALIVE = 75
"""Seconds after which an idle connection is closed: above the 60 s of common proxies, which close first."""
LINGER = 100
"""Looks in a row at which a connection must have been idle in a drain before it is closed: about a second.

A client that sends again in the meantime is answered, and told `Connection: close`. Closing at once would cut those
off whose next request is under way. Looks are counted, not seconds: on a machine that stands still for a while, or
is overloaded, clients are late, too.
"""
ACCEPT_RETRY = 0.1
"""Seconds without accepting when descriptors have run out."""
DRAIN_INTERVAL = 0.01
"""Seconds between two looks at the connections during a drain."""


class HttpServer:
    """Serves one ASGI application on a listening socket, in the running loop."""

    def __init__(self, app: ASGIApp, listener: socket.socket) -> None:
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._state = ServerState()
        self._config = uvicorn.Config(
            app,
            http=H11Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE,
        )
        self._config.load()
        self._stopped = False
        self._opening: set[asyncio.Task[None]] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._state.connections)

    async def exchange(self, request: bytes) -> bytes:
        """Answer one HTTP request on a connection of our own, before or beside any that is accepted.

        `request` has to say `Connection: close`; what is returned is the whole response.
        """
        ours, theirs = socket.socketpair()
        with ours:
            for end in (ours, theirs):
                end.setblocking(False)
            await self._loop.connect_accepted_socket(self._protocol, theirs)
            await self._loop.sock_sendall(ours, request)
            response = b""
            while chunk := await self._loop.sock_recv(ours, 65536):
                response += chunk
        return response

    def start(self) -> None:
        """Begin to accept."""
        self._listener.setblocking(False)
        self._tick()
        self._resume()

    def stop_accepting(self) -> None:
        """From this very moment, leave connections in the backlog. Harmless when it was called before."""
        self._stopped = True
        self._loop.remove_reader(self._listener.fileno())

    async def drain(self, grace: float) -> None:
        """Let the requests in flight finish, for `grace` seconds at most; then cancel what is left.

        Idle connections are closed once they have been idle at `LINGER` looks, or when half of `grace` is over.
        """
        self.stop_accepting()
        # In place: responses of requests in flight that have not begun yet say it, too.
        self._state.default_headers.append((b"connection", b"close"))
        begun = self._loop.time()
        idle: Counter[H11Protocol] = Counter()
        while self._is_serving() and (passed := self._loop.time() - begun) < grace:
            for connection in self._connections():
                idle[connection] = 0 if _is_busy(connection) else idle[connection] + 1
                if idle[connection] > (LINGER if passed < grace / 2 else 0):
                    connection.shutdown()
            await asyncio.sleep(DRAIN_INTERVAL)
        for timer in self._timers.values():
            timer.cancel()
        await self._cut()

    def _is_serving(self) -> bool:
        # A request outlives its connection while what it began is ended for a caller who went away.
        return bool(self._state.connections or self._state.tasks or self._opening)

    async def _cut(self) -> None:
        """Cancel the requests that are still running and wait until their clean-up is done."""
        tasks = [*self._state.tasks, *self._opening]
        if tasks:
            _log.warning("%d requests did not finish in time and are cancelled", len(tasks))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in self._connections():
            connection.transport.abort()

    def _connections(self) -> list[H11Protocol]:
        return [entry for entry in self._state.connections if isinstance(entry, H11Protocol)]

    def _resume(self) -> None:
        if not self._stopped:
            self._loop.add_reader(self._listener.fileno(), self._accept)

    def _accept(self) -> None:
        try:
            accepted, _ = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return  # another worker was faster, or the client is gone
        except OSError as error:
            _log.error("cannot accept connections: %s", error)
            self._loop.remove_reader(self._listener.fileno())
            self._timers["accept"] = self._loop.call_later(ACCEPT_RETRY, self._resume)
            return
        accepted.setblocking(False)
        with contextlib.suppress(OSError):  # the client is gone already
            # A loop does so itself only where the socket object knows that it is TCP; without it, 40 ms are lost.
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        task = self._loop.create_task(self._open(accepted))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _open(self, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._protocol, accepted)
        except OSError as error:
            _log.debug("a connection was lost before it was served: %s", error)
            accepted.close()

    def _protocol(self) -> H11Protocol:
        return H11Protocol(config=self._config, server_state=self._state, app_state={}, _loop=self._loop)

    def _tick(self) -> None:
        """Keep the Date header of the responses true to the second."""
        date = (b"date", formatdate(time.time(), usegmt=True).encode())
        self._state.default_headers[:1] = [date]
        self._timers["date"] = self._loop.call_later(1.0, self._tick)


def _is_busy(connection: H11Protocol) -> bool:
    """Whether the connection has a request in hand, or in its buffer, or is closing already."""
    # `cycle` is uvicorn's newest request on it; None on a connection that has not sent one yet.
    answering = connection.cycle is not None and not connection.cycle.response_complete
    return answering or connection.transport.is_closing() or _bytes_waiting(connection.transport)


def _bytes_waiting(transport: asyncio.Transport) -> bool:
    """Whether the peer has sent something that is still in the socket's buffer."""
    descriptor = transport.get_extra_info("socket").fileno()
    if descriptor < 0:
        return False
    (count,) = struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, struct.pack("i", 0)))
    return bool(count)
