"""Reads what the page shows: every 15 seconds for the history, and on each request for what is now.

Knows agents and clocks; nothing of HTML. The series are read in a thread, and only the page waits for that.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger
from pallas_supervisor.http.page.data.facts import WallClock, count_of, gather
from pallas_supervisor.http.page.data.history import INTERVAL, History
from pallas_supervisor.http.page.data.samples import Samples, read_samples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prometheus_client.core import Metric

    from pallas_supervisor.agents.status import StatusView
    from pallas_supervisor.http.page.data.facts import DeploymentFacts
    from pallas_supervisor.lifecycle.states import Transition
    from pallas_supervisor.telemetry.process_metrics import WorkerProcess

_log = get_logger("pallas.supervisor.page")

type Reading = tuple[Samples, dict[str, int]]
"""The workers' series, and the resident memory in bytes of each live worker."""


class Feed:
    """The newest facts, and the last quarter of an hour.

    Args:
        processes: every live worker.
        now: seconds on the engine's clock.
        resident_memory: bytes of a process, None if it has gone.
        read: collects the workers' series; called in a thread, by one at a time.
        reading: held while `read` runs.
    """

    def __init__(
        self,
        status: StatusView,
        processes: Callable[[], list[WorkerProcess]],
        now: Callable[[], float],
        resident_memory: Callable[[int], int | None],
        read: Callable[[], Iterable[Metric]],
        reading: asyncio.Lock,
    ) -> None:
        self._status = status
        self._processes = processes
        self._now = now
        self._resident_memory = resident_memory
        self._read = read
        self._reading = reading
        self._loop = asyncio.get_running_loop()
        self._history = History(now())
        self._clock = WallClock()
        for name, agent in status.agents.items():
            self._history.change(name, str(agent.state), now())
        self._recording: asyncio.Task[None] | None = None
        self._timer = self._loop.call_later(INTERVAL, self._tick)

    async def facts(self) -> DeploymentFacts:
        """What there is to show now."""
        samples, memory = await self._take()
        return gather(self._status, samples, memory, self._history, self._clock, self._now())

    def close(self) -> None:
        """Stop reading."""
        self._timer.cancel()
        if self._recording is not None:
            self._recording.cancel()

    def follow(self, change: Transition) -> None:
        """An agent has changed."""
        self._history.change(change.after.name, str(change.after.state), self._now())

    def _tick(self) -> None:
        self._timer = self._loop.call_later(INTERVAL, self._tick)
        if self._recording is None or self._recording.done():
            self._recording = self._loop.create_task(self._record(), name="page history")

    async def _record(self) -> None:
        try:
            samples, memory = await self._take()
        except Exception:  # noqa: BLE001 - one missing point must not end the history
            _log.exception("cannot read the figures for the status page")
            return
        self._history.keep(self._status.agents)
        counts = {name: count_of(samples.agents[name]) for name in self._status.agents}
        self._history.record(counts, memory, self._now())

    async def _take(self) -> Reading:
        processes = self._processes()
        async with self._reading:
            return await asyncio.to_thread(self._take_now, processes)

    def _take_now(self, processes: list[WorkerProcess]) -> Reading:
        memory: dict[str, int] = {}
        for name, pid, _ in processes:  # two of an agent while one takes over from the other
            if (size := self._resident_memory(pid)) is not None:
                memory[name] = memory.get(name, 0) + size
        return read_samples(self._read()), memory
