"""How much of models' streams is read before everything else has its turn: little, however much has come.

A provider's client yields what has come without a wait in between, some 0.1 to 0.25 ms of CPU time for each delta. A
burst of 2,000 held the loop for most of a second, and with it all other calls, probes and the heartbeat. So each stream
passes here before it makes something of the next event: all streams of the process together get `BUDGET` seconds of one
iteration of the loop, then they wait in line. Here a stream also waits for a reader that is behind.

Knows fast-agent's streams and their providers' by what they are called; must not know calls.
"""
# ruff: noqa: SLF001 - here fast-agent's private names may be used

from __future__ import annotations

import asyncio
import functools
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from fast_agent.llm.provider import streaming_timeouts

from pallas_common.logs.setup import get_logger
from pallas_worker.fastagent.current_call import current_call, no_wait
from pallas_worker.fastagent.streams.deltas import take_deltas_as_they_are

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

BUDGET = 0.005
"""Seconds of one iteration of the loop for all streams."""
SHARE = 0.001
"""Seconds of them for a stream that has waited, as long as others wait."""

_log = get_logger("pallas.worker.fastagent")


class Pace:
    """Lets streams go on in the order in which they come, so long in each iteration of a loop."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.loop = loop
        self._clock = clock
        self._end: float | None = None
        """Of the time that streams have in this iteration; None before the first."""
        self._holder: asyncio.Task[Any] | None = None
        """The stream that has waited for this iteration."""
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._turning = False

    async def step(self) -> None:
        """Go on at once, or when it is this stream's turn."""
        now = self._clock()
        if self._end is None:
            if not self._waiting:
                self._begin(now + BUDGET)
                return
        elif now < self._end and (not self._waiting or self._holder is asyncio.current_task()):
            return
        turn = self.loop.create_future()
        self._waiting.append(turn)
        self._turn_soon()
        await turn
        if self._end is None:
            self._begin(self._clock() + (SHARE if self._waiting else BUDGET))
            self._holder = asyncio.current_task()

    def _begin(self, end: float) -> None:
        self._end = end
        self._turn_soon()

    def _turn_soon(self) -> None:
        if not self._turning:
            self._turning = True
            self.loop.call_soon(self._turn)

    def _turn(self) -> None:
        """A new iteration of the loop: the next one in line goes on in the one after it, and all else before."""
        self._turning = False
        self._end = self._holder = None
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # as it is where the stream was given up
                turn.set_result(None)
                break
        if self._waiting:
            self._turn_soon()


def pace_streams() -> None:
    """Let all streams of this process pass here; again, it does nothing more."""
    owner = getattr(streaming_timeouts, "_IdleTimeoutAsyncStream", None)
    if owner is None:
        _log.warning("fast-agent's streams have moved: a burst of a model's words holds up all else")
    elif not hasattr(owner.__anext__, "__wrapped__"):
        owner.__init__ = _prepared(owner.__init__)
        owner.__anext__ = _paced(owner.__anext__)


def _prepared(prepare: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(prepare)
    def __init__(stream: Any, source: Any, **options: Any) -> None:  # noqa: N807 - it stands for one
        # A stream's provider is loaded at last with the stream, as with a call's own model.
        take_deltas_as_they_are()
        # Before an event is made of what has come, which is most of the work, where the provider's client lets us.
        stream.pallas_paced = _pace_events(source) or _pace_events(getattr(source, "_raw_stream", None))
        prepare(stream, source, **options)

    return __init__


def _paced(following: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(following)
    async def __anext__(stream: Any) -> Any:  # noqa: N807 - it stands for one
        call = current_call()
        if call is not None and call.room is not no_wait:
            await call.room()
        event = await following(stream)
        if not stream.pallas_paced:
            await pace().step()
        return event

    return __anext__


def _pace_events(source: Any) -> bool:
    """Let all streams of this class pass before they read an event; whether they do."""
    owner: Any
    for owner in type(source).__mro__:
        events = vars(owner).get("_iter_events")
        if events is not None:
            if not hasattr(events, "__wrapped__"):
                owner._iter_events = _paced_events(events)
            return True
    return False


def _paced_events(iterate: Callable[[Any], AsyncIterator[Any]]) -> Callable[[Any], AsyncIterator[Any]]:
    @functools.wraps(iterate)
    async def _iter_events(stream: Any) -> AsyncIterator[Any]:
        own = pace()
        async for event in iterate(stream):
            await own.step()
            yield event

    return _iter_events


def pace() -> Pace:
    """The pace of the running loop."""
    global _pace
    loop = asyncio.get_running_loop()
    if _pace is None or _pace.loop is not loop:
        _pace = Pace(loop)
    return _pace


_pace: Pace | None = None
