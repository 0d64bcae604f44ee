"""What a scrape asks of the supervisor: states, ports, processes, health, memory and what was lost. Reads only.

Knows the parts that have the facts; what becomes of them is the exporter's. Read in a thread beside the loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pallas_supervisor.health.document import agent_health
from pallas_supervisor.lifecycle.states import label
from pallas_supervisor.telemetry.process_metrics import WorkerProcess

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pallas_common.protocol.reports import Status
    from pallas_supervisor.agents.engine import Engine
    from pallas_supervisor.health.reports import WorkerReports
    from pallas_supervisor.lifecycle.states import Agent
    from pallas_supervisor.logs.router import LogRouter
    from pallas_supervisor.monitors.reactions import Reactions
    from pallas_supervisor.processes.launcher import Launcher
    from pallas_supervisor.processes.pipes.intake import Intake
    from pallas_supervisor.processes.zygote_client import Zygote
    from pallas_supervisor.reload.drift import Drift


class Facts:
    """The facts to publish, as they are at the moment."""

    def __init__(
        self,
        engine: Engine,
        drift: Drift,
        reports: WorkerReports,
        launcher: Launcher,
        monitors: Reactions,
        intake: Intake,
        log_router: LogRouter,
        zygote: Zygote | None,
    ) -> None:
        self._engine = engine
        self._drift = drift
        self._reports = reports
        self._launcher = launcher
        self._monitors = monitors
        self._intake = intake
        self._log_router = log_router
        self._zygote = zygote

    @property
    def agents(self) -> Mapping[str, Agent]:
        """The agents as they are, in the order of `agents.yaml`."""
        return self._engine.agents

    @property
    def ports(self) -> Mapping[str, int | None]:
        """The agents' ports; None for one without."""
        return {name: agent.port for name, agent in self._drift.deployment.agents.items()}

    @property
    def processes(self) -> list[WorkerProcess]:
        """Every live worker: two of an agent while one takes over from another."""
        workers = self._launcher.workers.items()
        return [
            WorkerProcess(owner.name, worker.pid, worker.launch_info.at)
            for owner, worker in workers
            if owner.name == label(owner.name)
        ]

    @property
    def zygote_pid(self) -> int | None:
        """The process that workers are forked from, while there is one."""
        return None if self._zygote is None else self._zygote.pid

    @property
    def memory(self) -> Mapping[str, tuple[int, int]]:
        """Bytes taken and allowed, of each agent with a `memory_limit`."""
        return self._monitors.memory

    @property
    def call_bounds(self) -> Mapping[str, tuple[int, int]]:
        """Each agent's `max_concurrency` and `max_queue`."""
        agents = self._drift.deployment.agents.items()
        return {name: (agent.max_concurrency, agent.max_queue) for name, agent in agents}

    @property
    def lost_lines(self) -> Mapping[tuple[str, str], int]:
        """Log lines lost so far, by agent and reason; those that the disk did not take have the agent ""."""
        lost = self._intake.lost
        floods = {(name, "flood"): lost.get(name, 0) for name in self._drift.deployment.agents}
        return {("", "disk"): self._log_router.lost, **floods}

    @property
    def unreadable_reports(self) -> Mapping[str, int]:
        """Lines of each agent's workers that are no report, so far."""
        return {name: self._intake.unreadable[name] for name in self._drift.deployment.agents}

    @property
    def health(self) -> Mapping[str, Status]:
        """Each agent's health."""
        agents = dict(self.agents).items()
        return {name: agent_health(agent, self._reports.health(agent)) for name, agent in agents}
