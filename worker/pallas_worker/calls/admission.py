"""How many calls of one worker run at a time, how many may wait for their turn, and how the others are refused.

Knows numbers and the clock; must not know what a call does.
"""

from __future__ import annotations

import asyncio
import math
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NoReturn

from pallas_common.logs.setup import get_logger
from pallas_worker.interface.errors import BusyError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    type ObserveCalls = Callable[[int, int], None]
    """Called after every change: how many calls run, and how many wait."""

_WEIGHT = 0.2
"""Of the newest call in the moving average of how long calls take."""

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
        observe(0, 0)

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """A place to run, when it is this call's turn; one that is cancelled while it waits leaves the queue.

        Raises:
            BusyError: all places are taken, and as many calls as may wait do so already.
        """
        await self._take()
        began = self._clock()
        try:
            yield
        finally:
            self._places.release()
            self._learn(self._clock() - began)
            self._change(running=-1)

    async def _take(self) -> None:
        if not self._places.locked():
            await self._places.acquire()
            self._change(running=1)
            return
        if self._waiting >= self._max_waiting:
            self._refuse()
        self._refusing = False
        self._change(waiting=1)
        try:
            await self._places.acquire()
        except BaseException:
            self._change(waiting=-1)
            raise
        self._change(running=1, waiting=-1)

    def _change(self, *, running: int = 0, waiting: int = 0) -> None:
        self._running += running
        self._waiting += waiting
        self._observe(self._running, self._waiting)

    def _learn(self, seconds: float) -> None:
        before = seconds if self._duration is None else self._duration
        self._duration = before + _WEIGHT * (seconds - before)

    def _refuse(self) -> NoReturn:
        counts = (
            f"{self._running} of {self._max_running} calls run, {self._waiting} of {self._max_waiting} wait"
        )
        refusal = f"the agent is busy: {counts}"
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
