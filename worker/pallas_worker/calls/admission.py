"""How many calls of one worker run at a time, how many may wait for their turn, and how the others are refused.

Knows numbers and the clock; must not know what a call does.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, NoReturn

from pallas_common.logs.setup import get_logger
from pallas_worker.interface.errors import BusyError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    type ObserveCalls = Callable[[int, int], None]
    """Called after every change: how many calls run, and how many wait."""

_WEIGHT = 0.2
"""Of the newest call in the moving average of how long calls take."""

HELD_UP = 5.0
"""Seconds after which a call of another agent looks whether those that it waits for wait for agents themselves."""

_log = get_logger("pallas.worker.admission")


class Admission:
    """Lets calls run in the order of their arrival, so many at a time."""

    def __init__(
        self,
        max_running: int,
        max_waiting: int,
        observe: ObserveCalls,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._places = asyncio.Semaphore(max_running)
        self._max_running = max_running
        self._max_waiting = max_waiting
        self._observe = observe
        self._clock = clock
        self._running = 0
        self._waiting = 0
        self._duration: float | None = None
        self._refusing = False
        self._asking: Counter[object] = Counter()
        """The places whose calls wait for another agent."""
        observe(0, 0)

    @asynccontextmanager
    async def place(self, *, handed: bool = False, returned: bool = False) -> AsyncIterator[object]:
        """A place to run, when it is this call's turn; one that is cancelled while it waits leaves the queue.

        Args:
            handed: another agent calls, and keeps a place there meanwhile.
            returned: the call has come from this agent itself, which keeps a place here meanwhile.

        Raises:
            BusyError: all places are taken, and as many calls as may wait do so already; or to wait might be to wait
                for oneself.
        """
        await self._take(handed=handed, returned=returned)
        began = self._clock()
        place = object()
        try:
            yield place
        finally:
            self._places.release()
            self._learn(self._clock() - began)
            self._change(running=-1)

    @contextmanager
    def asking(self, place: object) -> Iterator[None]:
        """Within the block, the call at this place waits for another agent."""
        self._asking[place] += 1
        try:
            yield
        finally:
            self._asking[place] -= 1
            if not self._asking[place]:
                del self._asking[place]

    async def _take(self, *, handed: bool, returned: bool) -> None:
        if not self._places.locked():
            await self._places.acquire()
            self._change(running=1)
            return
        if returned:
            raise BusyError(
                f"{self._busy}, and this call has come from one of them, which would wait for itself"
            )
        if self._waiting >= self._max_waiting:
            self._refuse()
        self._refusing = False
        self._change(waiting=1)
        try:
            await (self._turn() if handed else self._places.acquire())
        except BaseException:
            self._change(waiting=-1)
            raise
        self._change(running=1, waiting=-1)

    async def _turn(self) -> None:
        """Wait for the turn of a call that keeps a place at another agent, unless all here wait for other agents.

        Raises:
            BusyError: they do, and may do so in a circle.
        """
        acquiring = asyncio.ensure_future(self._places.acquire())
        try:
            while not (await asyncio.wait({acquiring}, timeout=HELD_UP))[0]:
                self._refuse_circle()
        except BaseException:
            acquiring.cancel()
            (got,) = await asyncio.gather(acquiring, return_exceptions=True)
            if got is True:
                self._places.release()
            raise

    def _refuse_circle(self) -> None:
        if len(self._asking) >= self._running:
            raise BusyError(f"{self._busy}, and all of them wait for other agents, which may wait for them")

    def _change(self, *, running: int = 0, waiting: int = 0) -> None:
        self._running += running
        self._waiting += waiting
        self._observe(self._running, self._waiting)

    def _learn(self, seconds: float) -> None:
        before = seconds if self._duration is None else self._duration
        self._duration = before + _WEIGHT * (seconds - before)

    @property
    def _busy(self) -> str:
        counts = (
            f"{self._running} of {self._max_running} calls run, {self._waiting} of {self._max_waiting} wait"
        )
        return f"the agent is busy: {counts}"

    def _refuse(self) -> NoReturn:
        refusal = self._busy
        if not self._refusing:
            self._refusing = True
            _log.warning(f"{refusal}; calls are refused until there is room")
        seconds = self._patience()
        when = (
            "later: no call has ended yet, so that nobody can say how soon"
            if seconds is None
            else f"in about {seconds} s, by what the last calls took"
        )
        raise BusyError(f"{refusal}; try again {when}", seconds)

    def _patience(self) -> int | None:
        """Seconds until a call that comes now would have its turn; None as long as no call has ended."""
        if self._duration is None:
            return None
        return max(1, math.ceil(self._duration * (self._waiting + 1) / self._max_running))
