"""What workers report, taken in: to the engine, the monitors and the traces, and remembered as health and model.

Knows which worker serves an agent, and that one which says that it is ready is probed before it is believed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger
from pallas_common.protocol.reports import (
    CodeReport,
    FailedReport,
    HealthReport,
    Heartbeat,
    IdleReport,
    ReadyReport,
    Report,
    StageReport,
)
from pallas_common.secrets.shortening import without_secrets
from pallas_supervisor.lifecycle.events import BecameIdle, Ready, StartFailureReported
from pallas_supervisor.lifecycle.states import State, label
from pallas_supervisor.logs.transitions import tell_inability

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pallas_common.protocol.reports import FileMark
    from pallas_common.secrets.values import KnownSecrets
    from pallas_supervisor.agents.engine import Engine
    from pallas_supervisor.health.history import HealthHistory
    from pallas_supervisor.health.reports import WorkerReports
    from pallas_supervisor.lifecycle.states import Agent, Transition, WorkerId
    from pallas_supervisor.monitors.reactions import Reactions
    from pallas_supervisor.telemetry.start_traces import StartTraces

LONGEST_COMPLAINT = 2_000
"""Characters that are kept of why a worker gives up."""

_log = get_logger("pallas.supervisor.fleet")


class ReportsIn:
    """Takes the reports of all workers.

    Args:
        reports: where they are remembered.
        history: where it is remembered since when an agent's health is what it is.
        note_health: notes the health of an agent in the history.
        health_reported: called when an agent has said how it is.
        confirm: returns once it is seen that an agent's worker answers; it is given up after the `start_timeout`.
        secrets: what no reason of a failure may show.
        changed: called when what is shown of an agent is not what it was.
        models_reported: takes the models of an agent that is ready.
    """

    def __init__(
        self,
        engine: Engine,
        monitors: Reactions,
        traces: StartTraces,
        reports: WorkerReports,
        history: HealthHistory,
        *,
        note_health: Callable[[Agent], None],
        health_reported: Callable[[Agent], None],
        confirm: Callable[[str], Awaitable[None]],
        secrets: KnownSecrets,
        changed: Callable[[], None],
        take_code: Callable[[str, int, tuple[FileMark, ...]], None],
        models_reported: Callable[[list[str]], None],
    ) -> None:
        self._engine = engine
        self._monitors = monitors
        self._traces = traces
        self._until_confirmed = confirm
        self._secrets = secrets
        self._changed = changed
        self._take_code = take_code
        self._models_reported = models_reported
        self._reports = reports
        self._history = history
        self._note_health = note_health
        self._health_reported = health_reported
        self._probes: dict[str, asyncio.Task[None]] = {}

    def take(self, worker_id: WorkerId, report: Report) -> None:
        """Take one report of a worker; it counts for nothing unless the worker may live."""
        name, generation = worker_id
        agent = self._engine.agents.get(name)
        if agent is None or not agent.may_live(generation):  # what is read later would be remembered for ever
            return
        self._traces.report(name, generation, report)
        match report:
            case Heartbeat(interval=interval):
                self._monitors.beat(worker_id, interval)
            case StageReport(stage=stage):
                _log.debug(f"{label(name)}: {stage}", agent=label(name), generation=generation)
            case CodeReport(files=files):
                self._take_code(name, generation, files)
            case ReadyReport():
                self._monitors.settle(worker_id)
                self._reports.take_ready(name, generation, report)
                self._confirm_ready(agent, generation)
                models = (report.model, *(part.model for part in report.parts))
                self._models_reported([model for model in models if model is not None])
            case FailedReport(message=message):
                said = without_secrets(" ".join(message.split()), LONGEST_COMPLAINT, self._secrets)
                self._engine.post(name, StartFailureReported(generation, said))
            case IdleReport():
                self._engine.post(name, BecameIdle(generation))
            case HealthReport():
                self._take_health(agent, generation, report)

    def _take_health(self, agent: Agent, generation: int, report: HealthReport) -> None:
        before = self._reports.take_health(agent.name, generation, report)
        if generation == agent.generation:
            tell_inability(agent.name, before, report)
            self._history.take(agent.name, report)
            self._note_health(agent)
            self._health_reported(agent)
        if before is None or (before.status, before.message) != (report.status, report.message):
            self._changed()

    def transition(self, change: Transition) -> None:
        """Give up a probe that no start waits for, and forget what workers said that are gone."""
        before, after = change.before, change.after
        if before.state is State.STARTING and change.of_state and after.name in self._probes:
            self._probes.pop(after.name).cancel()
        self._reports.keep_only(after)
        if after.name in self._engine.agents:  # else it would be remembered for ever
            self._note_health(after)

    def agent_removed(self, name: str) -> None:
        """Forget all that the agent's workers said."""
        self._reports.forget(name)
        self._history.forget(name)

    def _confirm_ready(self, agent: Agent, generation: int) -> None:
        if generation != agent.generation:
            # A probe of the port might meet the old worker; the new one has probed itself before it said so.
            self._engine.post(agent.name, Ready(generation))
        elif agent.state is State.STARTING and agent.name not in self._probes:
            confirming = self._confirm(agent.name, generation)
            self._probes[agent.name] = asyncio.create_task(confirming, name=f"probe {agent.name}")

    async def _confirm(self, name: str, generation: int) -> None:
        await self._until_confirmed(name)
        self._engine.post(name, Ready(generation))
