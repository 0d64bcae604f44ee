"""Reads what the page shows: every 15 seconds for the history, and on each request for what is now.

Knows agents and clocks; nothing of HTML. The series are read in a thread, and only the page waits for that.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger
from pallas_supervisor.http.page.data.facts import Gatherer, count_of
from pallas_supervisor.http.page.data.history import INTERVAL, History
from pallas_supervisor.http.page.data.samples import Samples, read_samples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prometheus_client.core import Metric

    from pallas_supervisor.agents.status import StatusView
    from pallas_supervisor.http.page.data.facts import DeploymentFacts
    from pallas_supervisor.lifecycle.states import Transition
    from pallas_supervisor.telemetry.process_metrics import ProcessUse

_log = get_logger("pallas.supervisor.page")

type Reading = tuple[Samples, dict[str, ProcessUse]]
"""The workers' series, and what their processes use."""


class Feed:
    """The newest facts, and the last quarter of an hour.

    Args:
        now: seconds on the engine's clock.
        use: looks at the workers' processes.
        read: collects the workers' series.
    """

    def __init__(
        self,
        status: StatusView,
        now: Callable[[], float],
        use: Callable[[], dict[str, ProcessUse]],
        read: Callable[[], Iterable[Metric]],
    ) -> None:
        self._status = status
        self._now = now
        self._use = use
        self._read = read
        self.reading = asyncio.Lock()
        """Held by whoever collects: collectors keep state from one time to the next."""
        self._loop = asyncio.get_running_loop()
        self._history = History(now())
        self._gatherer = Gatherer(status, self._history)
        for name, agent in status.agents.items():
            self._history.change(name, str(agent.state), now())
        self._recording: asyncio.Task[None] | None = None
        self._timer = self._loop.call_later(INTERVAL, self._tick)

    async def facts(self) -> DeploymentFacts:
        """What there is to show now."""
        samples, use = await self._take()
        return self._gatherer.gather(samples, use, self._now())

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
            samples, use = await self._take()
        except Exception:  # noqa: BLE001 - one missing point must not end the history
            _log.exception("cannot read the figures for the status page")
            return
        agents = self._status.agents
        self._history.keep(agents)
        counts = {name: count_of(totals) for name, totals in samples.agents.items() if name in agents}
        memory = {name: used.memory for name, used in use.items() if used.memory}
        self._history.record(counts, memory, self._now())

    async def _take(self) -> Reading:
        async with self.reading:
            return await asyncio.to_thread(self._take_now)

    def _take_now(self) -> Reading:
        return read_samples(self._read()), self._use()
