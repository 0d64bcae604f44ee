"""What operators and clients see of the agents: status, health, and why an agent is in its state.

The functions are pure; `StatusView` asks the parts for what they show.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pallas_common.times import ago
from pallas_registry.catalogue.entries import published_url
from pallas_registry.resources.model import ResourceId
from pallas_supervisor.health.document import agent_health, roll_up, with_gateway
from pallas_supervisor.lifecycle.exits import describe_exit, describe_seconds
from pallas_supervisor.lifecycle.states import WITH_PROCESS, Desired, SecondWorkerState, State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pallas_common.protocol.agent.settings import StartPolicy
    from pallas_common.protocol.reports import Status
    from pallas_registry.deployment.model import Agent as DeployedAgent
    from pallas_registry.deployment.model import Deployment
    from pallas_supervisor.agents.engine import Engine
    from pallas_supervisor.health.history import HealthHistory
    from pallas_supervisor.health.reports import WorkerReports
    from pallas_supervisor.lifecycle.states import Agent, SecondWorker
    from pallas_supervisor.reload.drift import Drift

LISTED = frozenset(State) - {State.STOPPED, State.FAILED}
"""States in which an agent is in the registry: one that restarts stays, as contract and clients expect."""


class Declared(NamedTuple):
    """What is said of an agent; empty where nothing is."""

    model: str
    """`provider.model-name`."""
    project: str
    """Of a resource."""


class Door(Protocol):
    """The gateway, as far as the deployment's status has it."""

    def entry(self) -> dict[str, Any] | None:
        """What the status document says of it; None where there is none."""

    def health(self) -> dict[str, Any] | None:
        """What the document of `GET /health` says of it; None where there is none, or should be none."""

    def trouble(self) -> str | None:
        """Why it does not serve though it should, in one line."""


class StatusView:
    """Reads the status of the agents from the parts that know it. All of a thousand agents take some 20 ms.

    Args:
        reports: what workers have said of themselves.
        history: since when their health is what it is.
        memory: bytes of resident memory of a process, None if it is gone.
        socket: path of the unix socket of an agent without a port.
    """

    def __init__(
        self,
        engine: Engine,
        reports: WorkerReports,
        history: HealthHistory,
        drift: Drift,
        memory: Callable[[int], int | None],
        socket: Callable[[str], object],
    ) -> None:
        self._engine = engine
        self.gateway: Door | None = None
        self.reports = reports
        self.health_history = history
        self._drift = drift
        self._memory = memory
        # Making paths for a thousand agents would be a third of the time that the document takes.
        self._socket = lru_cache(2048)(lambda name: str(socket(name)))

    @property
    def deployment(self) -> Deployment:
        """The deployment as it was last loaded."""
        return self._drift.deployment

    @property
    def agents(self) -> Mapping[str, Agent]:
        """The agents as they are, in the order of `agents.yaml`."""
        return self._engine.agents

    def declared(self, name: str) -> Declared:
        """What the resource of an agent says of its model and project."""
        taken = self._drift.taken
        agent = taken.deployment.agents[name]
        if (definition := agent.definition) is None:
            return Declared("", "")
        llm, resource = definition.llm, taken.resources.get(ResourceId("agent", name))
        model = definition.model or taken.settings.default_model
        return Declared(
            (model or "") if llm is None else f"{llm.provider}.{llm.model}",
            "" if resource is None else str(resource.spec.get("project", "")),
        )

    def listed(self) -> list[str]:
        """The agents that the registry shows."""
        return [name for name, agent in self.agents.items() if agent.state in LISTED]

    def why(self, name: str) -> str:
        """One line on why the agent is in its state; empty when there is nothing to say."""
        engine = self._engine
        return say_why(engine.agents[name], engine.awaited(name), engine.agents, engine.now())

    def health(self, agent: Agent) -> tuple[str, str]:
        """The agent's health in the word of the status document, and what its worker says of it, or nothing."""
        report = self.reports.health(agent)
        if agent.state is State.READY and report is not None:
            return report.status, report.message or ""
        if agent.state is State.IDLE:
            return "ok", ""
        return "error" if agent.state in (State.BACKOFF, State.FAILED) else "unknown", ""

    def summary(self) -> str:
        """One line for `systemctl status`: `4/5 agents ready (2 idle); research: restarting in 2 s`."""
        wanted = [agent for agent in self.agents.values() if agent.desired is Desired.UP]
        missing = [agent for agent in wanted if not agent.is_available]
        idle = sum(agent.state is State.IDLE for agent in wanted)
        ready = f"{len(wanted) - len(missing)}/{len(wanted)} agents ready" + (
            f" ({idle} idle)" if idle else ""
        )
        troubles = [f"{agent.name}: {self.why(agent.name) or agent.state}" for agent in missing[:3]]
        if self.gateway is not None and (trouble := self.gateway.trouble()) is not None:
            troubles.insert(0, f"gateway: {trouble}")
        return "; ".join([ready, *troubles])

    @property
    def is_ready(self) -> bool:
        """Whether all that should run serves, or will as soon as somebody connects."""
        if self.gateway is not None and self.gateway.trouble() is not None:
            return False
        return all(agent.is_available for agent in self.agents.values() if agent.desired is Desired.UP)

    def note_health(self, agent: Agent) -> None:
        """Note since when the agent's health is what it is now."""
        self.health_history.note(agent.name, agent_health(agent, self.reports.health(agent)), ago())

    def health_document(self) -> dict[str, Any]:
        """The body of `GET /health`."""
        agents = self.agents
        said = {}
        for name, agent in agents.items():
            if self.health_history.since(name) is None:  # it has not moved yet
                self.note_health(agent)
            if agent.state is State.READY and (report := self.reports.health(agent)) is not None:
                said[name] = report
        document = roll_up(agents, said, self.why, self.health_history, ago())
        if self.gateway is None or (gateway := self.gateway.health()) is None:
            return document
        return {**document, "status": self.with_gateway(document["status"]), "gateway": gateway}

    def with_gateway(self, agents: Status) -> Status:
        """The health of the deployment, from that of its agents."""
        gateway = None if self.gateway is None else self.gateway.health()
        if gateway is None:
            return agents
        closed = gateway["status"] == "error" and self.deployment.workers_behind  # there is no other way in
        return with_gateway(agents, gateway["status"], closed=closed)

    def entries(self, names: Iterable[str] | None = None) -> list[dict[str, Any]]:
        """Entries of the status document: of these agents, or of all."""
        agents = self.agents
        return [self._entry(agents[name]) for name in (agents if names is None else names)]

    def condition(self, agent: Agent) -> tuple[str, str]:
        """The agent's health, and one line on it or on why the agent is in its state."""
        health, said = self.health(agent)
        return health, self.why(agent.name) or said

    def _entry(self, agent: Agent) -> dict[str, Any]:
        health, message = self.condition(agent)
        deployed = self.deployment.agents[agent.name]
        running = agent.state in WITH_PROCESS
        return agent_status(
            agent,
            port=deployed.port,
            url=published_url(self.deployment, deployed),
            socket=self._socket(agent.name) if deployed.port is None else None,
            depends_on=deployed.depends_on,
            message=message,
            health=health,
            memory=None if agent.pid is None else self._memory(agent.pid),
            age=self._engine.now() - agent.since,
            start=deployed.start,
            source=source_of(self.deployment, deployed),
            stale_files=self._drift.stale_files(agent.name, agent.generation) if running else (),
            changed_code=self._drift.changed_code(agent.name, agent.generation) if running else (),
            replacing=self._is_replacing(agent),
        )

    def _is_replacing(self, agent: Agent) -> bool:
        if agent.replace is not None:
            return True
        return agent.is_replacing and not self._drift.stale_files(agent.name, agent.last_generation)


def source_of(deployment: Deployment, agent: DeployedAgent) -> dict[str, Any]:
    """Where the agent is declared: file and line of `agents.yaml`, or that it is a resource."""
    if agent.definition is not None:
        return {"kind": "resource"}
    return {"kind": "file", "file": str(deployment.path), "line": agent.line}


def say_why(agent: Agent, waiting_for: tuple[str, ...], agents: Mapping[str, Agent], now: float) -> str:
    """One line on why the agent is in its state; empty when there is nothing to say.

    Args:
        waiting_for: dependencies that are not READY.
        agents: all agents by name.
        now: seconds on the engine's clock.
    """
    if agent.state is State.WAITING and waiting_for:
        return f"waiting for {', '.join(_awaited(agents[name]) for name in waiting_for)}"
    if agent.state is State.BACKOFF and agent.retry_at is not None:
        wait = agent.retry_at - now
        when = f"in {describe_seconds(wait)}" if wait >= 0.05 else "now"
        return f"{agent.message}; restarting {when}, failure {agent.failures}/{agent.policy.max_failures}"
    if agent.state is State.READY and not agent.message:
        return _say_replacement(agent)
    return agent.message


def _awaited(agent: Agent) -> str:
    """A dependency that is not there, and for one that will not come by itself, why."""
    because = f": {agent.message}" if agent.state is State.FAILED and agent.message else ""
    return f"{agent.name} ({agent.state}{because})"


def _say_replacement(agent: Agent) -> str:
    if (second_worker := agent.second_worker) is None:
        return "" if agent.replace is None else f"will be replaced ({agent.replace})"
    match second_worker.state:
        case SecondWorkerState.STARTING:
            return f"being replaced ({second_worker.cause}): a new worker is starting"
        case SecondWorkerState.STUCK:
            return f"replaced; the old worker, process {second_worker.pid}, cannot be killed"
        case _:
            return f"replaced; process {second_worker.pid} is {second_worker.state}"


def agent_status(
    agent: Agent,
    *,
    port: int | None,
    url: str | None,
    socket: str | None = None,
    depends_on: tuple[str, ...],
    message: str,
    health: str,
    memory: int | None,
    age: float,
    start: StartPolicy,
    source: dict[str, Any],
    stale_files: tuple[str, ...],
    changed_code: tuple[str, ...],
    replacing: bool = False,
) -> dict[str, Any]:
    """One entry of the status document.

    Args:
        url: where clients reach the agent; None if it has neither a port nor a gateway.
        socket: path of the unix socket that it listens on in place of a port.
        age: seconds that the agent has been in its state.
        start: when its worker is started.
        source: where the agent is declared.
        stale_files: configuration files that say something else for its worker now than at its start.
        changed_code: source files that are not what its worker has loaded any more.
        replacing: a worker that goes by the newest files is about to take over, or its turn comes.
    """
    return {
        "name": agent.name,
        "state": str(agent.state),
        "desired": str(agent.desired),
        "pid": agent.pid,
        "port": port,
        "url": url,
        "socket": socket,
        "restarts": agent.restarts,
        "failures": agent.failures,
        "max_failures": agent.policy.max_failures,
        "since": ago(age),
        "health": health,
        "message": message,
        "last_exit": None if agent.last_exit is None else describe_exit(agent.last_exit),
        "generation": agent.generation,
        "start": start,
        "source": source,
        "depends_on": list(depends_on),
        "resident_memory": memory,
        "outdated": list(dict.fromkeys((*stale_files, *changed_code))),
        "changed_code": list(changed_code),
        "replacing": replacing,
        "replacement": None if agent.second_worker is None else _replacement(agent.second_worker),
    }


def _replacement(second_worker: SecondWorker) -> dict[str, Any]:
    return {
        "generation": second_worker.generation,
        "state": str(second_worker.state),
        "pid": second_worker.pid,
    }
