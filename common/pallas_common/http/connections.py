"""The connections of one kind of port: how many there may be, how long each may keep us waiting, which one goes first.

Knows phases, sizes and a clock; nothing of sockets or HTTP. A connection whose request is being answered is never
closed here, unless its client does not take the answer.
"""

from __future__ import annotations

import time
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from pallas_common.logs.setup import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable

KEEP_ALIVE = 75
"""Seconds between two requests of a connection: above the 60 s of common proxies, which close first."""
HEAD_TIMEOUT = 30.0
"""Seconds in which the head of a request has to be there."""
BODY_TIMEOUT = 60.0
"""Seconds in which the body of a request has to be there, and those more that its size takes at `BODY_RATE`."""
BODY_RATE = 16 * 1024
"""Bytes of a body that have to come in a second."""
STALL_TIMEOUT = 60.0
"""Seconds in which a client has to take `STALL_BYTES` of an answer that waits for it, unless a port says otherwise."""
STALL_BYTES = 1024
GRACE = 0.25
"""Seconds that a client has at least, however many others come, unless a port says otherwise."""
MAX_UNSENT = 64 * 1024 * 1024
"""Bytes of answers that clients may leave with us, if they are several."""
COMPLAINT_INTERVAL = 60.0
"""Seconds between two log records about too many connections."""

_log = get_logger("pallas.connections")


class Phase(Enum):
    """What is waited for on a connection."""

    SILENT = "its first request"
    IDLE = "its next request"
    SENDING = "the rest of its request"
    SERVED = "our answer"


class Connection(Protocol):
    """A connection, as far as it can be a burden."""

    @property
    def received(self) -> int:
        """Bytes of the request that have come since its head."""

    @property
    def unsent(self) -> int:
        """Bytes of answers that the client has not taken, beyond those in the system's own buffers."""

    @property
    def has_news(self) -> bool:
        """Whether the client has sent something that has not been looked at."""

    def abort(self) -> None:
        """Close it at once."""


class Connections:
    """The connections of one kind of port.

    Args:
        name: what the port is for, in log records.
        limit: how many there may be.
        grace: seconds that a client has at least, however many others come.
        stall_timeout: seconds in which a client has to take `STALL_BYTES` of an answer that waits for it.
        clock: in seconds, never back.
    """

    def __init__(
        self,
        name: str,
        limit: int,
        *,
        grace: float = GRACE,
        stall_timeout: float = STALL_TIMEOUT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limit = limit
        self._grace = grace
        self._stall_timeout = stall_timeout
        self._name = name
        self._clock = clock
        # Both in the order in which the waiting began.
        self._asking: dict[Connection, tuple[Phase, float]] = {}
        self._idle: dict[Connection, tuple[Phase, float]] = {}
        self._served: set[Connection] = set()
        self._unsent: dict[Connection, tuple[int, float]] = {}
        self._complained = -COMPLAINT_INTERVAL

    def __len__(self) -> int:
        return len(self._asking) + len(self._idle) + len(self._served)

    def are_quiet(self, seconds: float) -> bool:
        """Whether all of them have been without a request, and with one behind them, for so many seconds."""
        newest = next(reversed(self._idle.values()), None)
        return not (self._asking or self._served) and (newest is None or self._clock() - newest[1] >= seconds)

    def enter(self, connection: Connection, phase: Phase) -> None:
        """Begin to wait on the connection for what `phase` says."""
        self._remove(connection)
        match phase:
            case Phase.SERVED:
                self._served.add(connection)
            case Phase.IDLE:
                self._idle[connection] = (phase, self._clock())
            case _:
                self._asking[connection] = (phase, self._clock())

    def leave(self, connection: Connection) -> None:
        """Forget a connection that is closed. Harmless when it was forgotten before."""
        self._remove(connection)
        self._unsent.pop(connection, None)

    def _remove(self, connection: Connection) -> None:
        self._asking.pop(connection, None)
        self._idle.pop(connection, None)
        self._served.discard(connection)

    def has_room(self, coming: int = 0) -> bool:
        """Whether one more fits beside `coming` others, be it in the place of one that can be closed."""
        if len(self) + coming < self.limit:
            return True
        self._complain()
        return self._dispensable() is not None

    def make_room(self, coming: int = 1) -> None:
        """Close those that have kept us waiting longest until `coming` more fit, if that can be had."""
        while len(self) + coming > self.limit and self.close_one():
            pass

    def close_one(self) -> bool:
        """Close the connection that can best be done without; False if there is none."""
        victim = self._dispensable()
        if victim is not None:
            self._close(victim)
        return victim is not None

    def close_overdue(self) -> None:
        """Close those that have kept us waiting too long, or that leave too much of our answers with us."""
        now = self._clock()
        for connection in self._overdue(now):
            self._close(connection)
        self._look_at_unsent(now)
        excess = sum(size for size, _ in self._unsent.values()) - MAX_UNSENT
        # All that took something since the look before are of one age: the largest of those first.
        by_age = sorted(self._unsent.items(), key=lambda item: (item[1][1], -item[1][0]))
        for place, (connection, (size, since)) in enumerate(by_age, start=1):
            # One answer may be as large as it is: its client takes it, or is not the last one here for long.
            if now - since > self._stall_timeout or (excess > 0 and place < len(by_age)):
                self._close(connection)
                excess -= size

    def _dispensable(self) -> Connection | None:
        """The one that has kept us waiting longest, of those that ask or of those that are idle: whichever are more.

        A crowd that says nothing does not close the idle connections of others so, and a crowd of idle ones not those
        on which somebody is about to ask.
        """
        now = self._clock()
        for group in sorted((self._asking, self._idle), key=len, reverse=True):
            unfinished = None
            for connection, (_, since) in group.items():
                if now - since < self._grace:
                    break
                if connection.has_news:
                    continue
                if not connection.unsent:
                    return connection
                unfinished = unfinished or connection
            if unfinished is not None:
                return unfinished
        return None

    def _overdue(self, now: float) -> list[Connection]:
        def patience(connection: Connection, phase: Phase) -> float:
            match phase:
                case Phase.SILENT:
                    return HEAD_TIMEOUT
                case Phase.IDLE:
                    return KEEP_ALIVE + HEAD_TIMEOUT
                case _:
                    return BODY_TIMEOUT + connection.received / BODY_RATE

        return [
            connection
            for connection, (phase, since) in (*self._asking.items(), *self._idle.items())
            # What has come while we stood still is not late.
            if now - since > patience(connection, phase) and not connection.has_news
        ]

    def _look_at_unsent(self, now: float) -> None:
        """Note of each connection how much waits for its client, and since when that has hardly become less."""
        seen, self._unsent = self._unsent, {}
        for connection in (*self._asking, *self._idle, *self._served):
            if size := connection.unsent:
                before, since = seen.get(connection, (size, now))
                # What is taken adds up from look to look, however little it is at each.
                taken = size <= before - STALL_BYTES
                self._unsent[connection] = (size, now) if taken else (max(size, before), since)

    def _close(self, connection: Connection) -> None:
        self.leave(connection)
        connection.abort()

    def _complain(self) -> None:
        now = self._clock()
        if now - self._complained >= COMPLAINT_INTERVAL:
            self._complained = now
            _log.warning(
                f"{self._name}: all of its {self.limit} connections are taken, {len(self._served)} of them by requests;"
                " those that wait longest are closed"
            )
