"""The connections to one server: kept alive, no more than so many, with a queue that is no longer than so much."""

from __future__ import annotations

import asyncio
import errno
import ssl
from collections import deque
from contextlib import nullcontext
from typing import TYPE_CHECKING

from pallas_common.http.reach import ForbiddenAddressError, closed
from pallas_gateway.relay.http.connection import Connection
from pallas_gateway.relay.http.endpoint import tls_context
from pallas_gateway.relay.http.errors import BusyError, LateError, LostError, NoConnectionError

if TYPE_CHECKING:
    from pallas_gateway.relay.http.connection import Response
    from pallas_gateway.relay.http.endpoint import Endpoint

CONNECT_TIMEOUT = 5.0
"""Seconds until a connection is there, TLS included."""
MOST_CONNECTIONS = 64
MOST_WAITING = 512
LARGEST_ANSWER = 32 * 1024 * 1024
"""Bytes of an answer that is no stream; it may hold images."""
_FULL_BACKLOG_RETRY = 0.01
"""Seconds between two tries at a unix socket whose backlog is full: connect(2) does not wait there."""


class Pool:
    """Connections to one endpoint.

    Args:
        most: requests at a time; those that wait for one, at most `waiting`, are served in their order.
    """

    def __init__(
        self, endpoint: Endpoint, *, most: int = MOST_CONNECTIONS, waiting: int = MOST_WAITING
    ) -> None:
        self.endpoint = endpoint
        self._loop = asyncio.get_running_loop()
        self._most = most
        self._most_waiting = waiting
        self._free: list[Connection] = []
        self._open: set[Connection] = set()
        self._places = 0
        self._queue: deque[asyncio.Future[None]] = deque()

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._open)

    @property
    def is_busy(self) -> bool:
        """Whether a request is under way, or a stream open."""
        return self._places > 0

    async def exchange(
        self, request: bytes, *, safe: bool, timeout: float | None, most: int = LARGEST_ANSWER
    ) -> Response:
        """Send a request and give the answer: whole, or the head of an event stream.

        Args:
            safe: it may be sent twice. One that may not is sent again only where nothing has been sent.
            timeout: seconds for all of it, also of a stream.

        Raises:
            RelayError: there is no answer.
        """
        while True:
            await self._place()
            connection = self._kept()
            is_kept = connection is not None
            if connection is None:
                connection = await self._connected()
            try:
                return await connection.send(request, timeout=timeout, most=most)
            except LostError as error:
                if not (safe and is_kept and error.untouched):
                    raise

    def close(self) -> None:
        """Close all connections; requests on them fail."""
        free, self._free = self._free, []
        self._open.difference_update(free)  # they have no place that they could give back
        for connection in (*free, *self._open):
            connection.abort()
        while self._queue:
            if not (waiter := self._queue.popleft()).done():
                waiter.set_exception(NoConnectionError("the server is no longer used"))

    def _kept(self) -> Connection | None:
        """One that the last request has left open."""
        while self._free:
            connection = self._free.pop()
            if connection.is_reusable:
                return connection
            self._open.discard(connection)
            connection.abort()
        return None

    async def _place(self) -> None:
        """Wait until another connection may be opened."""
        if self._places >= self._most:
            if len(self._queue) >= self._most_waiting:
                raise BusyError(f"{len(self._queue)} requests wait for {self.endpoint.origin} already")
            waiter = self._loop.create_future()
            self._queue.append(waiter)
            try:
                await waiter  # the place is handed on, not given back
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                    self._give_back()
                raise
        else:
            self._places += 1

    async def _connected(self) -> Connection:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                connection = await self._connect()
        except TimeoutError:
            self._give_back()
            origin = self.endpoint.origin
            raise LateError(f"no connection to {origin} within {CONNECT_TIMEOUT:g} s") from None
        except ssl.SSLCertVerificationError as error:
            self._give_back()
            raise NoConnectionError(
                f"the certificate of {self.endpoint.origin} is not to be trusted: {error.verify_message}"
                " (of an authority of your own, name the file in SSL_CERT_FILE)"
            ) from None
        except ssl.SSLError as error:
            self._give_back()
            raise NoConnectionError(f"no connection to {self.endpoint.origin}: {error.reason}") from None
        except ForbiddenAddressError as error:
            self._give_back()
            raise NoConnectionError(str(error)) from None
        except OSError as error:
            self._give_back()
            reason = error.strerror or str(error)
            raise NoConnectionError(f"nothing answers at {self.endpoint.origin}: {reason}") from None
        except BaseException:
            self._give_back()
            raise
        self._open.add(connection)
        return connection

    async def _connect(self) -> Connection:
        endpoint = self.endpoint
        if endpoint.socket is not None:
            while True:
                try:
                    _, made = await self._loop.create_unix_connection(self._made, endpoint.socket)
                except BlockingIOError as error:
                    if error.errno != errno.EAGAIN:
                        raise
                    await asyncio.sleep(_FULL_BACKLOG_RETRY)
                else:
                    return made
        context = tls_context() if endpoint.is_tls else None
        with closed() if endpoint.closed else nullcontext():
            _, connected = await self._loop.create_connection(
                self._made, endpoint.host, endpoint.port, ssl=context
            )
        return connected

    def _made(self) -> Connection:
        return Connection(self._loop, self._done)

    def _done(self, connection: Connection) -> None:
        """A request is over, or a connection that was free has ended."""
        if connection in self._free:
            self._free.remove(connection)
            self._open.discard(connection)
            return
        if connection not in self._open:
            return
        if connection.is_reusable:
            self._free.append(connection)
        else:
            self._open.discard(connection)
            connection.abort()
        self._give_back()

    def _give_back(self) -> None:
        while self._queue:
            waiter = self._queue.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self._places -= 1
