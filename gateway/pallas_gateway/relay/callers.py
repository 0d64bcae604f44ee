"""A session of a server for each of those who call it: what one puts into a session, the next must not find there.

Lists and changes are everybody's, and come by the gateway's own session. A server that keeps no sessions, as from
2026-07-28 on, has nothing to keep apart.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pallas_gateway.relay.http.errors import BusyError, LostError, NoConnectionError

if TYPE_CHECKING:
    from pallas_gateway.relay.messages.model import Answer, Call, Link

MOST_CALLERS = 256
"""Sessions of one server at a time; the one that was not used for the longest time ends for a new one."""


@dataclass(slots=True)
class _Caller:
    """A session, and who waits for it or uses it."""

    link: Link
    opening: asyncio.Task[object] = field(init=False)
    used: float = field(default_factory=time.monotonic)
    calls: int = 0

    def __post_init__(self) -> None:
        self.opening = asyncio.get_running_loop().create_task(self.link.open())


class Callers:
    """The sessions of one server's callers.

    Args:
        own: the gateway's link, by which others are made.
    """

    def __init__(self, own: Link) -> None:
        self._own = own
        self._callers: dict[str, _Caller] = {}

    @property
    def connections(self) -> int:
        """How many are open now that are not the gateway's own."""
        return sum(
            each.link.connections for each in self._callers.values() if not each.link.shares_connections
        )

    async def relay(self, call: Call) -> Answer:
        """The answer to a call, in the session of its caller; made anew where it is lost.

        Raises:
            RelayError, ServerError: there is none.
        """
        who = call.caller
        if who is None or not self._own.keeps_sessions:
            return await self._own.relay(call)
        found = self._callers.get(who) or await self._new(who)
        found.calls += 1
        try:
            await asyncio.shield(found.opening)
            return await found.link.relay(call)
        except (NoConnectionError, LostError):
            await self._drop(who, found)
            raise
        except BaseException:
            if found.opening.done() and (found.opening.cancelled() or found.opening.exception() is not None):
                await self._drop(who, found)
            raise
        finally:
            found.calls -= 1
            found.used = time.monotonic()

    async def sweep(self, before: float) -> None:
        """End sessions that were last used before that moment of the monotonic clock."""
        for who, each in list(self._callers.items()):
            if each.used < before and not each.calls:
                await self._drop(who, each)

    async def close(self) -> None:
        """End all."""
        await asyncio.gather(*(self._drop(who, each) for who, each in list(self._callers.items())))

    async def _new(self, who: str) -> _Caller:
        self._callers[who] = made = _Caller(self._own.another())
        if len(self._callers) > MOST_CALLERS:
            idle = {name: each for name, each in self._callers.items() if not each.calls and each is not made}
            if not idle:
                await self._drop(who, made)
                raise BusyError(f"{MOST_CALLERS} callers have a session there, and all of them use it")
            oldest = min(idle, key=lambda name: idle[name].used)
            await self._drop(oldest, idle[oldest])
        return made

    async def _drop(self, who: str, caller: _Caller) -> None:
        if self._callers.get(who) is caller:
            del self._callers[who]
            caller.opening.cancel()
            await asyncio.gather(caller.opening, return_exceptions=True)
            await caller.link.close()
