"""Sessions of the revisions up to 2025-11-25: who has which, for how long, and what is under way in them.

Knows principals' ids and subscribers; not HTTP. A session is bound to the principal and the path of its `initialize`:
for everybody else, and elsewhere, it does not exist.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

from pallas_gateway.mcp.errors import INVALID_REQUEST, LIMIT_EXCEEDED
from pallas_gateway.mcp.surface import McpError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pallas_gateway.directory.events.subscriptions import Subscriber
    from pallas_gateway.mcp.reply import Watch

IDLE = 1800.0
"""Seconds without a request or a stream after which a session is forgotten."""
MOST = 10_000
"""Sessions of all principals together."""
MOST_STREAMS = 4
"""Open streams of a session: a client reads one; of those before it may not have been noticed that they are broken."""
SWEEP = 60.0
"""Seconds between two looks for idle ones."""


class Session:
    """One client's session."""

    __slots__ = ("id", "in_flight", "outlets", "owner", "path", "subscriber", "used", "version")

    def __init__(self, owner: str, path: str, version: str, subscriber: Subscriber, now: float) -> None:
        self.id = secrets.token_urlsafe(24)
        self.owner = owner
        self.path = path
        self.version = version
        self.subscriber = subscriber
        self.in_flight: dict[int | str, Watch] = {}
        self.outlets: list[asyncio.Event] = []
        """Of its open streams, oldest first; the newest, whose event is set, tells what there is to tell."""
        self.used = now

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way in it."""
        return not self.in_flight and not self.outlets

    def begin(self, request: int | str, watch: Watch) -> None:
        """A request is under way.

        Raises:
            McpError: one of that id is already.
        """
        if request in self.in_flight:
            raise McpError(INVALID_REQUEST, "a request of this id is under way in this session")
        self.in_flight[request] = watch

    def cancel(self, request: object) -> None:
        """The client has taken a request back; one that is not there has been answered already."""
        if isinstance(request, (int, str)) and (watch := self.in_flight.get(request)) is not None:
            watch.end("cancelled")

    def enter(self) -> asyncio.Event:
        """A stream is open, and the newest; where there are too many, the oldest has to end."""
        for outlet in self.outlets:
            outlet.clear()
        if len(self.outlets) >= MOST_STREAMS:
            self.outlets.pop(0).set()
        outlet = asyncio.Event()
        outlet.set()
        self.outlets.append(outlet)
        self.subscriber.wake()
        return outlet

    def leave(self, outlet: asyncio.Event) -> None:
        """It is closed; the next newest takes over."""
        if outlet in self.outlets:
            self.outlets.remove(outlet)
        if self.outlets:
            self.outlets[-1].set()


class Sessions:
    """All of them, by id, least recently used first.

    Args:
        most_each: sessions of one principal.
    """

    def __init__(
        self,
        *,
        most_each: int,
        most: int = MOST,
        idle: float = IDLE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most_each = most_each
        self._most = most
        self._idle = idle
        self._clock = clock
        self._all: OrderedDict[str, Session] = OrderedDict()
        self._by_owner: dict[str, dict[str, Session]] = {}
        self._sweeping: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """How many there are."""
        return len(self._all)

    def make_room(self, owner: str) -> None:
        """Forget the principal's oldest idle session, or the oldest of all, where there is no room for one more.

        Raises:
            McpError: none is idle.
        """
        self.sweep()
        mine = self._by_owner.get(owner, {})
        if len(mine) >= self._most_each:
            self._drop_oldest(mine, f"this principal has {len(mine)} sessions in use: end some")
        if len(self._all) >= self._most:
            self._drop_oldest(self._all, f"{len(self._all)} sessions are in use: try again later")

    def add(self, owner: str, path: str, version: str, subscriber: Subscriber) -> Session:
        """A new one; there is room."""
        session = Session(owner, path, version, subscriber, self._clock())
        self._all[session.id] = session
        self._by_owner.setdefault(owner, {})[session.id] = session
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(SWEEP, self._sweep_again)
        return session

    def find(self, session_id: str, owner: str, path: str) -> Session | None:
        """The principal's session of that id, which is used by that."""
        session = self._all.get(session_id)
        if session is None or session.owner != owner or session.path != path or session.subscriber.ended:
            return None
        self.touch(session)
        return session

    def touch(self, session: Session) -> None:
        """It is being used, or was until now."""
        if session.id in self._all:
            session.used = self._clock()
            self._all.move_to_end(session.id)
            self._by_owner[session.owner][session.id] = self._by_owner[session.owner].pop(session.id)

    def end(self, session: Session) -> None:
        """The client has ended it, or it is forgotten: what is under way in it ends as well."""
        if self._all.pop(session.id, None) is None:
            return
        mine = self._by_owner[session.owner]
        del mine[session.id]
        if not mine:
            del self._by_owner[session.owner]
        for watch in tuple(session.in_flight.values()):
            watch.end("cancelled")
        session.subscriber.end("left")
        for outlet in session.outlets:
            outlet.set()

    def revoke(self, owner: str) -> None:
        """The principal may nothing any more."""
        for session in tuple(self._by_owner.get(owner, {}).values()):
            self.end(session)

    def sweep(self) -> None:
        """Forget those that have been idle for too long."""
        before = self._clock() - self._idle
        while self._all and (session := next(iter(self._all.values()))).used <= before:
            if session.is_idle:
                self.end(session)
            else:
                self.touch(session)

    def _sweep_again(self) -> None:
        self.sweep()
        self._sweeping = (
            asyncio.get_running_loop().call_later(SWEEP, self._sweep_again) if self._all else None
        )

    def _drop_oldest(self, among: dict[str, Session], otherwise: str) -> None:
        for session in among.values():
            if session.is_idle:
                self.end(session)
                return
        raise McpError(LIMIT_EXCEEDED, otherwise, status=429)
