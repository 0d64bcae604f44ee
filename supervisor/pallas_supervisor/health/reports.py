"""What workers have said of themselves: their model when they became ready, their health since.

Kept by generation: during a graceful replacement two workers of an agent speak, and only one of them counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pallas_common.protocol.reports import HealthReport, ReadyReport
    from pallas_supervisor.lifecycle.states import Agent


class WorkerReports:
    """The newest reports of all workers."""

    def __init__(self) -> None:
        self._health: dict[str, dict[int, HealthReport]] = {}
        self._ready: dict[str, dict[int, ReadyReport]] = {}

    def take_ready(self, name: str, generation: int, report: ReadyReport) -> None:
        """Note what a worker publishes of its model."""
        self._ready.setdefault(name, {})[generation] = report

    def take_health(self, name: str, generation: int, report: HealthReport) -> HealthReport | None:
        """Note a worker's health; the report before it."""
        reports = self._health.setdefault(name, {})
        before = reports.get(generation)
        reports[generation] = report
        return before

    def health(self, agent: Agent) -> HealthReport | None:
        """The newest health report of the agent's current generation."""
        return self._health.get(agent.name, {}).get(agent.generation)

    def model(self, agent: Agent) -> ReadyReport | None:
        """What the agent's current worker publishes of its model; while it is starting, what the one before it did."""
        known = self._ready.get(agent.name, {})
        upto = [generation for generation in known if generation <= agent.generation]
        return known[max(upto)] if upto else None

    def keep_only(self, agent: Agent) -> None:
        """Forget what workers that are gone have said, but for the model that is still published."""
        kept = agent.generations if agent.has_process else ()
        for generation in self._health.get(agent.name, {}).keys() - set(kept):
            del self._health[agent.name][generation]
        known = self._ready.get(agent.name, {})
        published = max((generation for generation in known if generation <= agent.generation), default=None)
        for generation in known.keys() - {*kept, published}:
            del known[generation]

    def forget(self, name: str) -> None:
        """Forget all that an agent's workers said, when it leaves."""
        self._health.pop(name, None)
        self._ready.pop(name, None)
