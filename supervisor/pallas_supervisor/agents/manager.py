"""The agents of one deployment: makes the parts that run them and connects them: who observes what, in which order.

Wiring only: each part is passed what it uses, and none is passed the manager.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pallas_supervisor.agents.engine import Engine
from pallas_supervisor.agents.facts import Facts
from pallas_supervisor.agents.observers import AgentObservers
from pallas_supervisor.agents.reports_in import ReportsIn
from pallas_supervisor.agents.status import StatusView
from pallas_supervisor.agents.worker_spec import StartKeys, StartPreparation, graph_of, policies_of
from pallas_supervisor.events.agent_events import AgentEvents
from pallas_supervisor.events.log import EventLog
from pallas_supervisor.events.resource_events import ResourceEvents
from pallas_supervisor.health.history import HealthHistory
from pallas_supervisor.health.past_exits import PastExits
from pallas_supervisor.health.reports import WorkerReports
from pallas_supervisor.lifecycle.events import Wanted
from pallas_supervisor.lifecycle.states import State
from pallas_supervisor.logs.transitions import log_transition
from pallas_supervisor.monitors.reactions import Reactions
from pallas_supervisor.processes.launcher import Launcher
from pallas_supervisor.processes.linux.process_tree import THIS_PROCESS
from pallas_supervisor.processes.pipes.intake import Intake
from pallas_supervisor.processes.starter import WORKER_MODULE, LaunchContext
from pallas_supervisor.processes.zygote_client import preloaded
from pallas_supervisor.reload.source import take_over
from pallas_supervisor.sockets.mcp_probe import initialize, until_answered
from pallas_supervisor.sockets.unserved.switch import UnavailableResponders
from pallas_supervisor.telemetry.exporter import Metrics
from pallas_supervisor.telemetry.start_traces import StartTraces

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable

    from pallas_common.protocol.gateway import GatewaySpec
    from pallas_common.protocol.reports import Report
    from pallas_common.protocol.spec import WorkerSpec
    from pallas_registry.deployment.model import Deployment
    from pallas_supervisor.lifecycle.events import Event
    from pallas_supervisor.lifecycle.states import Agent, Transition, WorkerId
    from pallas_supervisor.logs.router import LogRouter
    from pallas_supervisor.processes.linux.cgroups import Groups
    from pallas_supervisor.processes.linux.process_tree import ProcessParent
    from pallas_supervisor.processes.zygote_client import Zygote
    from pallas_supervisor.reload.drift import Drift
    from pallas_supervisor.sockets.agent_sockets import AgentSockets
    from pallas_supervisor.telemetry.store import MetricsStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What is supervised beside the agents: who takes what happens to its processes, and what they are started with."""

    module: str
    """What its processes execute."""
    prepare: Callable[[WorkerId], Awaitable[GatewaySpec]]
    listener: Callable[[], socket.socket]
    take: Callable[[WorkerId, Report], None]
    post: Callable[[str, Event], None]
    gone: Callable[[WorkerId], None]


class AgentManager:
    """The parts of one deployment, wired together.

    Args:
        drift: knows the configuration that is gone by, the files, and what each worker was started with.
        listeners: one listening socket an agent, except those for which `sockets` could have none.
        sockets: opens them, and knows where agents without a port listen.
        zygote: what workers are forked from; None where every worker is started by exec.
        directory: working directory of the workers.
        traces: makes spans of starts, where they are wanted.
        groups: where workers get control groups of their own; None where that cannot be had.
        parent: below which workers are started, and the zygote was.
        launch: makes what starts and ends workers; takes what `Launcher` does.
    """

    engine: Engine
    preparation: StartPreparation
    reports_in: ReportsIn

    def __init__(
        self,
        drift: Drift,
        *,
        listeners: dict[str, socket.socket],
        sockets: AgentSockets,
        store: MetricsStore,
        log_router: LogRouter,
        zygote: Zygote | None,
        directory: str,
        traces: StartTraces | None = None,
        groups: Groups | None = None,
        parent: ProcessParent = THIS_PROCESS,
        launch: Callable[..., Launcher] = Launcher,
    ) -> None:
        self.drift = drift
        self.sockets = sockets
        self._zygote = zygote
        self.store = store
        self.log_router = log_router
        self.traces = traces or StartTraces()
        self.beside: dict[str, Beside] = {}
        """What else is supervised by the same launcher, by names that no agent can have."""
        self.observers = AgentObservers()
        self.keys = StartKeys()
        self.events = EventLog(log_router.secrets)
        reports, history = WorkerReports(), HealthHistory()
        # The parts below need each other in a circle: those who call back are made first, and whom they call is looked
        # up when it happens, which is never before all are there.
        self.intake = Intake(self._take, log_router, self._pid)
        context = LaunchContext(
            prepare=self._prepare,
            interpreter=self._interpreter,
            module=lambda name: self.beside[name].module if name in self.beside else WORKER_MODULE,
            listener=lambda name: self._listener_of(name).fileno(),
            pipes=self.intake,
            zygote=zygote,
            groups=groups,
            parent=parent,
        )
        self.launcher = launch(
            context,
            emit=self._emit,
            gone=self._gone,
        )
        deployment = drift.deployment
        engine = self.engine = Engine(
            self.launcher,
            graph_of(deployment),
            policies_of(deployment),
            max_surge=deployment.max_surge,
            observers=self.observers,
        )
        self.preparation = StartPreparation(
            engine,
            drift,
            store,
            self.traces,
            keys=self.keys,
            directory=directory,
            known_secrets=log_router.secrets,
            outlives=lambda name: sockets.outlives(self._listener(name)),
        )
        self.monitors = Reactions(
            engine,
            self.launcher,
            self.intake.drain,
            lambda name: drift.deployment.agents[name].liveness_misses,
        )
        self.facts = Facts(
            engine, drift, reports, self.launcher, self.monitors, self.intake, log_router, zygote
        )
        self.metrics = Metrics(self.facts, store.families)
        self.status = StatusView(
            engine, reports, history, drift, self.metrics.workers.resident_memory, sockets.path
        )
        self.exits = PastExits(log_router, self._started, time.time)
        self.reports_in = ReportsIn(
            engine,
            self.monitors,
            self.traces,
            reports,
            history,
            note_health=self.status.note_health,
            health_reported=self.observers.health_reported,
            confirm=lambda name: until_answered(
                sockets.address(name, drift.deployment.agents[name].port), initialize(self.keys.siblings)
            ),
            secrets=log_router.secrets,
            changed=self.observers.changed,
            take_code=drift.code.take,
            models_reported=self._models_reported,
        )
        self.responders = UnavailableResponders(
            engine, listeners, self.status.why, sockets.outlives, lambda name: engine.post(name, Wanted())
        )
        self._connect_observers()

    def _connect_observers(self) -> None:
        """Who observes what, and in which order; what is added later, as by the page, comes after these."""
        observers = self.observers
        events = AgentEvents(self.events, self._why, self.status.health)
        observers.transition.add(
            self.reports_in.transition,
            lambda change: self.traces.follow(change.after),
            self.responders.follow,
            lambda change: log_transition(change, self._why(change.after)),
            events.transition,
            self._gone_idle,
            lambda _change: observers.changed(),
        )
        observers.changed.add(lambda: self.traces.settle(self.engine.agents))
        observers.restart_counted.add(self.metrics.agents.count_restart, events.restart_counted)
        observers.health_reported.add(events.health_reported)
        observers.start_observed.add(self.metrics.agents.observe_start)
        observers.ended.add(self.exits.note)
        observers.process_gone.add(
            self.monitors.process_gone,
            self.keys.process_gone,
            lambda worker_id: self.store.process_gone(*worker_id),
        )
        observers.agent_removed.add(
            self.responders.agent_removed,
            self.sockets.agent_removed,
            self.store.remove,
            self.metrics.forget,
            self.log_router.forget,
            self.reports_in.agent_removed,
            self.drift.agent_removed,
            self.exits.forget,
        )
        observers.configuration_changed.add(
            take_over,
            self.drift.configuration_changed,
            lambda _old, new: self._take_preload(new.deployment),
            events.configuration_changed,
        )
        observers.resources_changed.add(ResourceEvents(self.events).changed)

    # --- what is an agent's, and what is of something beside them ----------------------------------------------

    def _take(self, worker_id: WorkerId, report: Report) -> None:
        other = self.beside.get(worker_id.name)
        (self.reports_in.take if other is None else other.take)(worker_id, report)

    async def _prepare(self, worker_id: WorkerId) -> WorkerSpec | GatewaySpec:
        other = self.beside.get(worker_id.name)
        return await (self.preparation.prepare(worker_id) if other is None else other.prepare(worker_id))

    def _interpreter(self, name: str) -> str | None:
        return sys.executable if name in self.beside else self.drift.deployment.agents[name].python

    def _emit(self, name: str, event: Event) -> None:
        other = self.beside.get(name)
        (self.engine.post if other is None else other.post)(name, event)

    def _gone(self, worker_id: WorkerId) -> None:
        other = self.beside.get(worker_id.name)
        (self.observers.process_gone if other is None else other.gone)(worker_id)

    def _listener_of(self, name: str) -> socket.socket:
        other = self.beside.get(name)
        return self._listener(name) if other is None else other.listener()

    def _listener(self, name: str) -> socket.socket:
        """The agent's listening socket; one that could not be had before is tried again.

        Raises:
            NoListenerError: it cannot be had.
        """
        if name not in self.responders.listeners:
            self.responders.replace({name: self.sockets.open_again(name)})
        return self.responders.listeners[name]

    def _gone_idle(self, change: Transition) -> None:
        """Keep little of an agent that has no process: there may be a thousand of them."""
        agent = change.after
        if agent.state is State.IDLE and not agent.has_process:
            self.store.idle(agent.name)
            self.log_router.idle(agent.name)
            self.drift.agent_removed(agent.name)

    def _pid(self, worker_id: WorkerId) -> int | None:
        worker = self.launcher.worker(worker_id)
        return None if worker is None else worker.pid

    def _models_reported(self, models: list[str]) -> None:
        if self._zygote is not None:
            self._zygote.bring_in(models)

    def _take_preload(self, deployment: Deployment) -> None:
        if self._zygote is not None:
            self._zygote.take_modules(preloaded(deployment))

    def _started(self, worker_id: WorkerId) -> float | None:
        worker = self.launcher.worker(worker_id)
        return None if worker is None else worker.launch_info.at

    def _why(self, agent: Agent) -> str:
        # One that a reload has removed has no place among the others any more, only a process that could not be killed.
        return self.status.why(agent.name) if agent.name in self.engine.agents else agent.message
