"""HTTP on a listening socket that is not ours alone: accept, serve, stop accepting between two connections.

Knows sockets and uvicorn's HTTP protocol; must not know what is served. Never binds, never closes the listening
socket: others have copies of it, and what waits in the backlog belongs to the process that accepts next.

Why asyncio's server does not do: closing it closes connections that it has accepted and not yet handed on, and a socket
for each process loses what is in that one's backlog (of prototypes, 4 of 10,500 requests and 823 of 10,700 failed in
restarts under load, against 0 of 29,000). So connections are accepted here, one by one, and in a drain no more of them,
from one moment to the next.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import time
from collections import Counter
from email.utils import formatdate
from typing import TYPE_CHECKING, override

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from pallas_common.http.connections import KEEP_ALIVE, Connections, Phase
from pallas_common.http.descriptors import EXHAUSTED, has_unread
from pallas_common.logs.setup import get_logger

if TYPE_CHECKING:
    from starlette.types import ASGIApp

_log = get_logger("pallas.http")

LINGER = 100
"""Looks in a row at which a connection must have been idle in a drain before it is closed: about a second.

A client that sends again in the meantime is answered with `Connection: close`. Closing at once would cut those
off whose next request is under way. Looks are counted, not seconds: on a machine that stands still for a while, or
is overloaded, clients are late, too.
"""
ACCEPT_RETRY = 0.02
"""Seconds without accepting when there is no room, or no descriptor."""
DRAIN_INTERVAL = 0.01
"""Seconds between two looks at the connections during a drain."""
LOOK_INTERVAL = 1.0
"""Seconds between two looks for connections that have kept us waiting too long."""
LARGEST_HEAD = 64 * 1024
"""Bytes of a request's head: with a token of 32 KiB in it."""
MOST_UNREAD = 65536
"""Bytes of a request that are taken when it is answered already; who sends more is not read any further."""
LEAVE_TIME = 1.0
"""Seconds in which such a client may still read its answer: closing at once could take that away (RFC 9112, 9.6)."""


class BoundedProtocol(H11Protocol):
    """uvicorn's HTTP/1.1 on a connection that tells what it waits for."""

    def __init__(
        self,
        connections: Connections,
        config: uvicorn.Config,
        state: ServerState,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(config=config, server_state=state, app_state={}, _loop=loop)
        self._places = connections
        self._phase = Phase.SILENT
        self.received = 0

    @property
    def unsent(self) -> int:
        """Bytes that the client has not taken."""
        return self.transport.get_write_buffer_size()

    @property
    def has_news(self) -> bool:
        """Whether the client has sent something that is still in the socket's buffer."""
        return has_unread(self.transport.get_extra_info("socket").fileno())

    @property
    def is_busy(self) -> bool:
        """Whether there is a request in hand, or in the buffer, or the connection is closing already."""
        # `cycle` is uvicorn's newest request on it; None on a connection that has not sent one yet.
        answering = self.cycle is not None and not self.cycle.response_complete
        return answering or self.transport.is_closing() or self.has_news

    def abort(self) -> None:
        """Close the connection at once, whatever has not been sent."""
        self.transport.abort()

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self._places.enter(self, Phase.SILENT)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._places.leave(self)
        super().connection_lost(exc)

    @override
    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        cycle = self.cycle
        # uvicorn would take, and throw away, the rest of a body without end: in pieces of a byte that takes the loop.
        if self.received > MOST_UNREAD and cycle is not None and cycle.response_complete and self._is_owed():
            self.flow.pause_reading()
            self.loop.call_later(LEAVE_TIME, self.abort)
            return
        super().data_received(data)
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            self._wait_for(Phase.SENDING if cycle.more_body else Phase.SERVED)

    @override
    def on_response_complete(self) -> None:
        self._wait_for(Phase.IDLE)
        super().on_response_complete()  # which goes on with a request that has come meanwhile
        if not self.cycle.response_complete:
            self._wait_for(Phase.SENDING if self.cycle.more_body else Phase.SERVED)

    @override
    def send_400_response(self, msg: str) -> None:
        # What is no HTTP comes while a request is worked on: whatever the application says from then on has no
        # connection. uvicorn would raise.
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
        # There may be nothing more to be said: an answer has begun, or has been given; to HEAD, there is no body.
        with contextlib.suppress(h11.LocalProtocolError):
            super().send_400_response(msg)
        self.transport.close()

    def _is_owed(self) -> bool:
        """Whether a part of the body of the newest request has not come."""
        return self.conn.their_state is h11.SEND_BODY

    def _wait_for(self, phase: Phase) -> None:
        if phase is not self._phase:
            self._phase = phase
            self.received = 0
            self._places.enter(self, phase)


class HttpServer:
    """Serves one ASGI application on a listening socket, in the running loop.

    Args:
        listener: listening; it is neither bound nor closed here.
        connections: how many there may be, and which are closed first.
        protocol: what is made of each connection.
        dates: whether responses say when they were made.
    """

    def __init__(
        self,
        app: ASGIApp,
        listener: socket.socket,
        connections: Connections,
        *,
        protocol: type[BoundedProtocol] = BoundedProtocol,
        dates: bool = True,
    ) -> None:
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._state = ServerState()
        self._connections = connections
        self._protocol_class = protocol
        self._dates = dates
        self._config = uvicorn.Config(
            app,
            http=protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE,
            h11_max_incomplete_event_size=LARGEST_HEAD,
        )
        self._config.load()
        self._stopped = False
        self._exhausted = False
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
        if self._dates:
            self._tick()
        self._resume()

    def stop_accepting(self) -> None:
        """From this very moment, leave connections in the backlog. Harmless when it was called before."""
        self._stopped = True
        self._loop.remove_reader(self._listener.fileno())

    def leave_if_quiet(self, seconds: float) -> bool:
        """Stop to accept and close all connections, but only if nobody can be about to ask: whether it has been done.

        Args:
            seconds: for which every connection has to have been idle. A client may use one again shortly after an
                answer, as after a list of tools, and would be cut off.
        """
        connections = self._open_connections()
        if (
            self._opening
            or not self._connections.are_quiet(seconds)
            or any(connection.is_busy for connection in connections)
            or _is_readable(self._listener)
        ):
            return False
        self.stop_accepting()
        for connection in connections:
            connection.shutdown()
        return True

    def accept_again(self) -> None:
        """Go on after `leave_if_quiet`."""
        self._stopped = False
        self._resume()

    async def drain(self, grace: float) -> None:
        """Let the requests in flight finish, for `grace` seconds at most; then cancel what is left.

        Idle connections are closed once they have been idle at `LINGER` looks, or when half of `grace` is over.
        """
        self.stop_accepting()
        # In place: responses of requests in flight that have not begun yet say it, too.
        self._state.default_headers.append((b"connection", b"close"))
        begun = self._loop.time()
        idle: Counter[BoundedProtocol] = Counter()
        while self._is_serving() and (passed := self._loop.time() - begun) < grace:
            for connection in self._open_connections():
                idle[connection] = 0 if connection.is_busy else idle[connection] + 1
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
            _log.warning(f"{len(tasks)} requests did not finish in time and are cancelled")
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in self._open_connections():
            connection.abort()

    def _open_connections(self) -> list[BoundedProtocol]:
        return [entry for entry in self._state.connections if isinstance(entry, BoundedProtocol)]

    def _resume(self) -> None:
        if not self._stopped:
            self._loop.add_reader(self._listener.fileno(), self._accept)

    def _pause(self) -> None:
        """Leave connections in the backlog for a moment: a loop that goes on looking at them would be busy."""
        self._loop.remove_reader(self._listener.fileno())
        self._timers["accept"] = self._loop.call_later(ACCEPT_RETRY, self._resume)

    def _accept(self) -> None:
        if not self._connections.has_room(len(self._opening)):
            self._pause()
            return
        try:
            accepted, _ = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return  # another worker was faster, or the client is gone
        except OSError as error:
            if error.errno in EXHAUSTED and self._connections.close_one():
                return  # to try again in the loop's next turn, when the descriptor is free
            self._complain(error)
            self._pause()
            return
        self._exhausted = False
        self._connections.make_room(len(self._opening) + 1)
        accepted.setblocking(False)
        with contextlib.suppress(OSError):  # the client is gone already, or it is a unix socket
            # A loop does so itself only where the socket object knows that it is TCP; without it, 40 ms are lost.
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        task = self._loop.create_task(self._open(accepted))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)
        if "look" not in self._timers:
            self._look()

    def _complain(self, error: OSError) -> None:
        """Say once that nothing can be accepted, until something was."""
        if not self._exhausted:
            self._exhausted = True
            _log.error(f"cannot accept connections: {error}")

    async def _open(self, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._protocol, accepted)
        except OSError as error:
            _log.debug(f"a connection was lost before it was served: {error}")
            accepted.close()

    def _protocol(self) -> BoundedProtocol:
        return self._protocol_class(self._connections, self._config, self._state, self._loop)

    def _look(self) -> None:
        """Close what has kept us waiting too long, again and again while there are connections."""
        self._connections.close_overdue()
        if self._connections or self._opening:
            self._timers["look"] = self._loop.call_later(LOOK_INTERVAL, self._look)
        else:
            self._timers.pop("look", None)

    def _tick(self) -> None:
        """Keep the Date header of the responses true to the second."""
        date = (b"date", formatdate(time.time(), usegmt=True).encode())
        self._state.default_headers[:1] = [date]
        self._timers["date"] = self._loop.call_later(1.0, self._tick)


def _is_readable(listener: socket.socket) -> bool:
    """Whether a connection waits on it."""
    looking = select.poll()  # which, unlike select(2), takes descriptors of any number
    looking.register(listener, select.POLLIN)
    return bool(looking.poll(0))
