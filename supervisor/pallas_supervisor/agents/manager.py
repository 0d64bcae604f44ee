"""The fleet: engine, processes, sockets, logs, metrics and health of one deployment, wired together.

Knows all of the parts and decides nothing that a part could decide. What people and clients see of it is read here.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pallas_common.logs.setup import get_logger
from pallas_common.protocol.reports import (
    FailedReport,
    HealthReport,
    Heartbeat,
    ProbedReport,
    ReadyReport,
    Report,
    StageReport,
    WatchReport,
)
from pallas_common.secrets.shortening import without_secrets
from pallas_common.times import ago
from pallas_registry.configured_secrets import configured_secrets
from pallas_supervisor.agents.engine import Engine
from pallas_supervisor.agents.status import agent_status, say_why
from pallas_supervisor.agents.worker_spec import policy_of, worker_spec
from pallas_supervisor.health.document import agent_health, roll_up
from pallas_supervisor.health.history import HealthHistory
from pallas_supervisor.health.reports import WorkerReports
from pallas_supervisor.health.shared_probes import SharedProbes
from pallas_supervisor.lifecycle.dependencies import Graph
from pallas_supervisor.lifecycle.events import Ready, StartFailureReported
from pallas_supervisor.lifecycle.states import WITH_PROCESS, Desired, State, Transition, WorkerId
from pallas_supervisor.logs.transitions import tell_inability, tell_replacement, tell_state
from pallas_supervisor.monitors.reactions import Reactions
from pallas_supervisor.processes.launcher import Launcher
from pallas_supervisor.processes.linux.process_tree import THIS_PROCESS
from pallas_supervisor.processes.pipes.intake import Intake
from pallas_supervisor.processes.pipes.notices import NoticePipes
from pallas_supervisor.processes.starter import LaunchContext
from pallas_supervisor.sockets.listeners import connectable
from pallas_supervisor.sockets.mcp_probe import until_answered
from pallas_supervisor.sockets.switch import UnavailableResponders
from pallas_supervisor.telemetry.exporter import Metrics
from pallas_supervisor.telemetry.process_metrics import WorkerProcess
from pallas_supervisor.telemetry.start_traces import StartTraces

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable, Mapping

    from pallas_common.logs.setup import Levels
    from pallas_common.protocol.reports import Status
    from pallas_common.protocol.spec import WorkerSpec
    from pallas_registry.deployment.model import Deployment, ModelSettings
    from pallas_supervisor.lifecycle.states import Agent
    from pallas_supervisor.logs.router import LogRouter
    from pallas_supervisor.processes.linux.cgroups import Groups
    from pallas_supervisor.processes.linux.process_tree import ProcessParent
    from pallas_supervisor.processes.zygote_client import Zygote
    from pallas_supervisor.reload.drift import Drift
    from pallas_supervisor.telemetry.slots import Slots

LISTED = frozenset(State) - {State.STOPPED, State.FAILED}
"""States in which an agent is in the registry: one that restarts stays, as contract and clients expect."""

LONGEST_COMPLAINT = 2_000
"""Characters that are kept of why a worker gives up."""

_log = get_logger("pallas.supervisor.fleet")


class AgentManager:
    """All agents of a deployment.

    Args:
        listeners: one listening socket an agent, which stays the fleet's to close.
        levels: log levels handed to workers.
        zygote: None where every worker is started by exec.
        directory: working directory of the workers.
        outlives: whether a port's socket is there for the next supervisor, too: nobody may shut it down.
        drift: knows the configuration files, and what each worker was started with.
        traces: makes spans of starts, where they are wanted.
        groups: where workers get control groups of their own; None where that cannot be had.
        parent: below which workers are started, and the zygote was.
    """

    def __init__(
        self,
        deployment: Deployment,
        settings: ModelSettings,
        *,
        listeners: dict[str, socket.socket],
        slots: Slots,
        log_router: LogRouter,
        levels: Levels,
        zygote: Zygote | None,
        directory: str,
        outlives: Callable[[int], bool] = lambda _port: False,
        drift: Drift,
        traces: StartTraces | None = None,
        groups: Groups | None = None,
        parent: ProcessParent = THIS_PROCESS,
    ) -> None:
        self.deployment = deployment
        self.settings = settings
        self.listeners = listeners
        self.slots = slots
        self.log_router = log_router
        self.levels = levels
        self.reports = WorkerReports()
        self.health_history = HealthHistory()
        self.change_observers: list[Callable[[], None]] = []
        self.drift = drift
        self.traces = traces or StartTraces()
        self._directory = directory
        self.outlives = outlives
        self._probes: dict[str, asyncio.Task[None]] = {}
        self.intake = Intake(
            lambda worker_id, report: self._reported(*worker_id, report), log_router, self._pid
        )
        self.notices = NoticePipes()
        self.shared_probes = SharedProbes(self.notices.send)
        self._probe_key = secrets.token_hex(32)
        context = LaunchContext(
            describe=lambda worker_id: self._describe(*worker_id),
            interpreter=lambda name: self.deployment.agents[name].python,
            listener=lambda name: self.listeners[name].fileno(),
            pipes=self.intake,
            notices=self.notices,
            zygote=zygote,
            groups=groups,
            parent=parent,
        )
        self.launcher = Launcher(
            context,
            emit=lambda name, event: self.engine.post(name, event),
            gone=lambda worker_id: self._gone(*worker_id),
        )
        policies = {name: policy_of(agent) for name, agent in deployment.agents.items()}
        self.engine = Engine(self.launcher, graph_of(deployment), policies, max_surge=deployment.max_surge)
        self._zygote = zygote
        self.metrics = Metrics(self, slots.families)
        self.engine.transition_observers.append(self._observe)
        self.engine.restart_observers.append(self.metrics.count_restart)
        self.engine.start_observers.append(self.metrics.observe_start)
        self.monitors = Reactions(self)
        self.responders = UnavailableResponders(self)
        for name in deployment.agents:
            self.responders.open(name)

    # --- what a scrape, the catalogue and people see ------------------------------------------------------

    @property
    def agents(self) -> Mapping[str, Agent]:
        """The agents as they are, in the order of `agents.yaml`."""
        return self.engine.agents

    @property
    def ports(self) -> Mapping[str, int]:
        """The agents' ports."""
        return {name: agent.port for name, agent in self.deployment.agents.items()}

    @property
    def pids(self) -> Mapping[str, int]:
        """The process IDs of the workers that count, without those that start or drain beside one."""
        return {name: agent.pid for name, agent in dict(self.agents).items() if agent.pid is not None}

    @property
    def processes(self) -> list[WorkerProcess]:
        """Every live worker: two of an agent while one takes over from another."""
        workers = self.launcher.workers.items()
        return [WorkerProcess(owner.name, worker.pid, worker.launch_info.at) for owner, worker in workers]

    @property
    def zygote_pid(self) -> int | None:
        """The process that workers are forked from, while there is one."""
        return None if self._zygote is None else self._zygote.pid

    @property
    def memory(self) -> Mapping[str, tuple[int, int]]:
        """Bytes taken and allowed, of each agent with a `memory_limit`."""
        return self.monitors.memory

    @property
    def call_bounds(self) -> Mapping[str, tuple[int, int]]:
        """Each agent's `max_concurrency` and `max_queue`."""
        agents = self.deployment.agents.items()
        return {name: (agent.max_concurrency, agent.max_queue) for name, agent in agents}

    @property
    def lost_lines(self) -> Mapping[tuple[str, str], int]:
        """Log lines that were lost so far, by agent and reason; those that the disk did not take are nobody's."""
        lost = self.intake.lost
        floods = {(name, "flood"): lost.get(name, 0) for name in self.deployment.agents}
        return {("", "disk"): self.log_router.lost, **floods}

    @property
    def unreadable_reports(self) -> Mapping[str, int]:
        """Lines of each agent's workers that are no report, so far."""
        return {name: self.intake.unreadable[name] for name in self.deployment.agents}

    @property
    def health(self) -> Mapping[str, Status]:
        """Each agent's health."""
        return {
            name: agent_health(agent, self.reports.health(agent)) for name, agent in dict(self.agents).items()
        }

    def listed(self) -> list[str]:
        """The agents that the registry shows."""
        return [name for name, agent in self.agents.items() if agent.state in LISTED]

    def why(self, name: str) -> str:
        """One line on why the agent is in its state."""
        return say_why(self.agents[name], self.engine.awaited(name), self.agents, self.engine.now())

    def health_document(self) -> dict[str, Any]:
        """The body of `GET /health`."""
        messages = {name: self.why(name) for name in self.agents}
        for agent in self.agents.values():
            self._note_health(agent)  # of one that has not moved yet, nothing is known
        said = {
            name: report
            for name, agent in self.agents.items()
            if (report := self.reports.health(agent)) is not None
        }
        return roll_up(self.agents, said, messages, self.health_history, ago())

    def outdated(self, name: str) -> tuple[str, ...]:
        """The files that say something else for the agent's worker now than at its start, by the last look."""
        return self.drift.outdated(name, self.agents[name].generation)

    def status(self, names: Iterable[str] | None = None) -> list[dict[str, Any]]:
        """Entries of the status document."""
        now = self.engine.now()
        return [
            self._status(self.agents[name], now) for name in (names if names is not None else self.agents)
        ]

    def _status(self, agent: Agent, now: float) -> dict[str, Any]:
        report = self.reports.health(agent)
        health: str = "unknown"
        message = self.why(agent.name)
        if agent.state is State.READY and report is not None:
            health = report.status
            message = message or report.message or ""
        elif agent.state in (State.BACKOFF, State.FAILED):
            health = "error"
        return agent_status(
            agent,
            port=self.deployment.agents[agent.name].port,
            depends_on=self.deployment.agents[agent.name].depends_on,
            message=message,
            health=health,
            memory=None if agent.pid is None else self.metrics.workers.resident_memory(agent.pid),
            age=now - agent.since,
            outdated=self.outdated(agent.name) if agent.state in WITH_PROCESS else (),
        )

    # --- workers ------------------------------------------------------------------------------------------

    def kill_all(self) -> None:
        """End every worker without grace."""
        for name, agent in self.agents.items():
            for generation in agent.generations:
                self.launcher.kill(WorkerId(name, generation))

    async def _describe(self, name: str, generation: int) -> WorkerSpec:
        files = await asyncio.to_thread(self.drift.fingerprints, name)
        self.drift.record(name, generation, files, serving=self.agents[name].generation)
        self.traces.begin(name, generation)
        spec = worker_spec(
            self.drift.taken,
            name=name,
            generation=generation,
            environ=os.environ,
            directory=self._directory,
            metrics=(str(self.slots.directory), self.slots.slot(name, generation)),
            listener_outlives=self.outlives(self.deployment.agents[name].port),
            probe_key=self._probe_key,
        )
        # The files may have changed since the last start, and each agent has an environment of its own.
        await asyncio.to_thread(self._learn_secrets, spec.environment)
        return spec

    def _learn_secrets(self, environment: Mapping[str, str]) -> None:
        self.log_router.secrets.add(configured_secrets(Path(self._directory), environment))

    def _pid(self, worker_id: WorkerId) -> int | None:
        worker = self.launcher.worker(worker_id)
        return None if worker is None else worker.pid

    def _gone(self, name: str, generation: int) -> None:
        self.monitors.forget(name, generation)
        self.shared_probes.leave(WorkerId(name, generation))
        self.slots.process_gone(name, generation)

    def _reported(self, name: str, generation: int, report: Report) -> None:
        agent = self.agents.get(name)
        if agent is None or not agent.may_live(generation):  # what is read later would be remembered for ever
            return
        self.traces.report(name, generation, report)
        match report:
            case Heartbeat(interval=interval):
                self.monitors.beat(name, generation, interval)
            case StageReport(stage=stage):
                _log.debug("%s: %s", name, stage, extra={"agent": name, "generation": generation})
            case ReadyReport():
                self.monitors.settle(name, generation)
                self.reports.take_ready(name, generation, report)
                self._confirm_ready(agent, generation)
            case FailedReport(message=message):
                said = without_secrets(" ".join(message.split()), LONGEST_COMPLAINT, self.log_router.secrets)
                self.engine.post(name, StartFailureReported(generation, said))
            case WatchReport(targets=targets):
                self.shared_probes.watch(WorkerId(name, generation), targets)
            case ProbedReport(results=results):
                # One of the future would be believed for as long as that.
                begun = [result for result in results if result.at <= time.monotonic()]
                self.shared_probes.take(WorkerId(name, generation), begun)
            case HealthReport():
                before = self.reports.take_health(name, generation, report)
                if generation == agent.generation:
                    tell_inability(name, before, report)
                    self.health_history.take(name, report)
                    self._note_health(agent)
                if before is None or (before.status, before.message) != (report.status, report.message):
                    self.changed()

    def _note_health(self, agent: Agent) -> None:
        status = agent_health(agent, self.reports.health(agent))
        self.health_history.note(agent.name, status, ago())

    def _confirm_ready(self, agent: Agent, generation: int) -> None:
        if generation != agent.generation:
            # A probe of the port might meet the old worker; the new one has probed itself before it said so.
            self.engine.post(agent.name, Ready(generation))
        elif agent.state is State.STARTING and agent.name not in self._probes:
            confirming = self._confirm(agent.name, generation)
            self._probes[agent.name] = asyncio.create_task(confirming, name=f"probe {agent.name}")

    async def _confirm(self, name: str, generation: int) -> None:
        await until_answered(connectable(self.deployment.bind), self.deployment.agents[name].port)
        self.engine.post(name, Ready(generation))

    def _observe(self, change: Transition) -> None:
        before, after = change.before, change.after
        name = after.name
        if before.state is State.STARTING and change.of_state and name in self._probes:
            self._probes.pop(name).cancel()
        self.reports.keep_only(after)
        self._note_health(after)
        self.traces.follow(self.agents, after)
        self.responders.switch()
        if change.of_state or after.generation != before.generation:
            tell_state(before, after, self.why(name))
        else:
            tell_replacement(before, after)
        self.changed()

    def changed(self) -> None:
        """Tell whoever shows the fleet to people or clients that it is not what it was."""
        for observe in self.change_observers:
            observe()

    def summary(self) -> str:
        """One line for `systemctl status`: `4/5 agents ready; research: restarting in 2 s`."""
        wanted = [agent for agent in self.agents.values() if agent.desired is Desired.UP]
        ready = sum(agent.state is State.READY for agent in wanted)
        troubles = [
            f"{agent.name}: {self.why(agent.name) or agent.state}"
            for agent in wanted
            if agent.state is not State.READY
        ]
        return "; ".join([f"{ready}/{len(wanted)} agents ready", *troubles[:3]])


def graph_of(deployment: Deployment) -> Graph:
    """The deployment's dependencies."""
    return Graph({name: agent.depends_on for name, agent in deployment.agents.items()})
