"""The gateway of one deployment, supervised like a worker: makes the parts that run its process and connects them.

Wiring, as `agents.manager` is for agents: an engine, observers, monitors and a responder of its own, and of the agents'
the launcher, the pipes, the log, the metrics and the event log. No agent waits for it, nor does it wait for one.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger
from pallas_common.problems import ConfigurationError
from pallas_common.protocol.gateway import GATEWAY, GATEWAY_NAME, OPERATOR_FILE
from pallas_common.secrets.values import secrets_in
from pallas_registry.environment.state_directory import ensure_private
from pallas_supervisor.agents.engine import Engine
from pallas_supervisor.agents.gateway.listening import listen
from pallas_supervisor.agents.gateway.spec import gateway_spec, policy_of
from pallas_supervisor.agents.gateway.status import GatewayStatus
from pallas_supervisor.agents.manager import Beside
from pallas_supervisor.agents.observers import AgentObservers
from pallas_supervisor.agents.reports_in import ReportsIn
from pallas_supervisor.events.agent_events import AgentEvents
from pallas_supervisor.health.history import HealthHistory
from pallas_supervisor.health.reports import WorkerReports
from pallas_supervisor.lifecycle.dependencies import Graph
from pallas_supervisor.lifecycle.events import Arm, Rebind, Redefine, Stop
from pallas_supervisor.lifecycle.states import RESTING, Desired, State
from pallas_supervisor.logs.transitions import log_transition
from pallas_supervisor.monitors.reactions import Reactions
from pallas_supervisor.reload.plan import gateway_action
from pallas_supervisor.sockets.listeners import connectable
from pallas_supervisor.sockets.mcp_probe import HEALTH, until_answered
from pallas_supervisor.sockets.unserved.switch import UnavailableResponders

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from pathlib import Path

    from pallas_common.protocol.gateway import GatewaySettings, GatewaySpec
    from pallas_common.protocol.reports import Report
    from pallas_registry.deployment.model import Deployment
    from pallas_supervisor.agents.manager import AgentManager
    from pallas_supervisor.lifecycle.states import Agent, WorkerId
    from pallas_supervisor.sockets.socket_store import SocketStore

MODULE = "pallas_gateway.process"
"""What its process executes."""


_log = get_logger("pallas.supervisor.gateway")


class NoStateError(PermissionError):
    """It has nowhere to keep anything, and to try again at once does not help; the text says why."""


class Gateway:
    """The process of the gateway, or the lack of one.

    Args:
        manager: whose launcher, pipes, log, metrics and events it shares.
        listener: where it listens; None where the deployment has no gateway.
        store: what the service manager keeps.
        control_socket: of this supervisor.
    """

    def __init__(
        self, manager: AgentManager, listener: socket.socket | None, store: SocketStore, control_socket: Path
    ) -> None:
        self._manager = manager
        self._store = store
        self._control_socket = control_socket
        self.observers = AgentObservers()
        settings = self.settings
        self.engine = Engine(
            manager.launcher,
            _graph(settings),
            {} if settings is None else {GATEWAY_NAME: policy_of(settings)},
            observers=self.observers,
        )
        self._monitors = Reactions(
            self.engine,
            manager.launcher,
            manager.intake.drain,
            lambda _name: self._settings().liveness_misses,
        )
        reports, history = WorkerReports(), HealthHistory()
        self.status = GatewayStatus(
            self.engine, reports, history, lambda: self.settings, manager.metrics.workers.resident_memory
        )
        self._reports_in = ReportsIn(
            self.engine,
            self._monitors,
            manager.traces,
            reports,
            history,
            note_health=self.status.note_health,
            health_reported=self.observers.health_reported,
            confirm=self._answers,
            secrets=manager.log_router.secrets,
            changed=self.observers.changed,
            take_code=lambda _name, _generation, _files: None,
            models_reported=lambda _models: None,
        )
        self.responders = UnavailableResponders(
            self.engine,
            {} if listener is None else {GATEWAY_NAME: listener},
            lambda _name: self._why(),
            self._outlives,
            lambda _name: None,
            lambda _name: "the gateway",
        )
        self._has_said_where = False
        self._connect_observers()
        manager.status.gateway = self.status
        manager.beside[GATEWAY_NAME] = Beside(
            module=MODULE,
            prepare=self._prepare,
            listener=lambda: self.responders.listeners[GATEWAY_NAME],
            take=self._take,
            post=self.engine.post,
            gone=self.observers.process_gone,
        )

    def _connect_observers(self) -> None:
        manager, observers = self._manager, self.observers
        events = AgentEvents(manager.events, self.status.why, self.status.condition, GATEWAY)
        observers.transition.add(
            self._reports_in.transition,
            lambda change: manager.traces.follow(change.after),
            self.responders.follow,
            lambda change: log_transition(change, self.status.why(change.after)),
            lambda change: self._say_where(change.after),
            events.transition,
            lambda _change: observers.changed(),
        )
        observers.changed.add(manager.observers.changed)
        observers.restart_counted.add(
            lambda _name, reason: manager.metrics.gateway.count_restart(reason), events.restart_counted
        )
        observers.health_reported.add(events.health_reported, self._say_where)
        observers.process_gone.add(
            self._monitors.process_gone,
            lambda worker_id: manager.store.process_gone(*worker_id),
        )
        manager.metrics.gateway.is_up = lambda: None if self.agent is None else self.agent.is_available

    def _say_where(self, agent: Agent) -> None:
        """Say once where it serves, and where its first token is: it has made that by now, if there was none."""
        if agent.state is State.READY and not self._has_said_where and not self.status.cannot_answer(agent):
            self._has_said_where = True
            state = self._manager.drift.taken.state_directory
            token = (
                "" if state is None else f"; its token for pallasctl and you is in {state / OPERATOR_FILE}"
            )
            _log.info(f"the gateway serves at {self._settings().public_url}/mcp{token}")

    @property
    def settings(self) -> GatewaySettings | None:
        """As they were last loaded; None where there is no gateway."""
        return self._manager.drift.deployment.gateway

    @property
    def agent(self) -> Agent | None:
        """The machine's part; None where there is no gateway."""
        return self.engine.agents.get(GATEWAY_NAME)

    @property
    def pids(self) -> frozenset[int]:
        """The processes of the gateway: two while one takes over from another."""
        workers = self._manager.launcher.workers.items()
        return frozenset(worker.pid for owner, worker in workers if owner.name == GATEWAY_NAME)

    def arm(self) -> None:
        """Want it up, where there is one."""
        self.engine.arm(self.engine.agents)

    # --- from one configuration to another ----------------------------------------------------------------

    def open_for(self, new: Deployment) -> socket.socket | None:
        """Listen where the gateway of another configuration is to listen; None if nothing changes there.

        Raises:
            PortsTakenError: the port cannot be listened on.
        """
        old = self.settings
        if new.gateway is None:
            return None
        if old is not None and gateway_action(old, new.gateway) != "rebind":
            return None
        return listen(new, self._store.take, patience=0.0)

    async def leave(self, new: Deployment) -> None:
        """Stop it, if another configuration has none."""
        if new.gateway is not None or self.agent is None:
            return
        while (agent := self.agent) is not None and agent.state not in RESTING:
            if agent.desired is Desired.UP:  # somebody may start it meanwhile
                self.engine.post(GATEWAY_NAME, Stop())
            await self.engine.until(self._moved_from(agent))

    def _moved_from(self, agent: Agent) -> Callable[[], bool]:
        return lambda: self.agent is not agent

    def move(self, old: GatewaySettings | None, opened: socket.socket | None) -> None:
        """Go by the configuration that has just been taken on; at the end of `leave`, and on what `open_for` opened."""
        new, manager = self.settings, self._manager
        if new is None:
            if old is not None:
                self.responders.agent_removed(GATEWAY_NAME)
                self.engine.redefine(_graph(None), {})
                self._reports_in.agent_removed(GATEWAY_NAME)
                manager.store.remove(GATEWAY_NAME)
            return
        policy = policy_of(new)
        if old is None:
            self.engine.redefine(_graph(new), {GATEWAY_NAME: policy})
        if opened is not None:
            self.responders.replace({GATEWAY_NAME: opened})
        action = None if old is None else gateway_action(old, new)
        if old is None:
            self.engine.post(GATEWAY_NAME, Arm())
        elif action == "rebind":
            self.engine.post(GATEWAY_NAME, Rebind(policy))
        elif action is not None:
            self.engine.post(GATEWAY_NAME, Redefine(policy, respawn=action == "respawn"))

    # --- for the launcher ---------------------------------------------------------------------------------

    async def _prepare(self, worker_id: WorkerId) -> GatewaySpec:
        manager, taken = self._manager, self._manager.drift.taken
        name, generation = worker_id
        manager.traces.begin(name, generation)
        state = await asyncio.to_thread(_ready_directory, taken.state_directory)
        spec = gateway_spec(
            taken,
            self._settings(),
            generation=generation,
            environ=os.environ,
            control_socket=self._control_socket,
            state_directory=state,
            metrics=(str(manager.store.directory), manager.store.slot(name, generation)),
            listener_outlives=self._outlives(self.responders.listeners[name]),
            waits_for_store=self._is_alone(generation),
        )
        known = manager.log_router.secrets
        await asyncio.to_thread(lambda: known.add((*secrets_in(spec.environment), *secrets_in(spec.secrets))))
        return spec

    def _is_alone(self, generation: int) -> bool:
        """Whether no older process answers in the place of this one."""
        agent = self.agent
        return agent is None or agent.generation == generation or self.status.cannot_answer(agent)

    def _take(self, worker_id: WorkerId, report: Report) -> None:
        self._reports_in.take(worker_id, report)

    # --- asked by its parts -------------------------------------------------------------------------------

    def _settings(self) -> GatewaySettings:
        settings = self.settings
        assert settings is not None, "there is no gateway"
        return settings

    async def _answers(self, _name: str) -> None:
        settings = self._settings()
        await until_answered((connectable(settings.bind), settings.port), HEALTH)

    def _outlives(self, listener: socket.socket) -> bool:
        return self._manager.sockets.outlives(listener)

    def _why(self) -> str:
        return "" if self.agent is None else self.status.why(self.agent)


def _graph(settings: GatewaySettings | None) -> Graph:
    return Graph({} if settings is None else {GATEWAY_NAME: ()})


def _ready_directory(directory: Path | None) -> Path:
    """The state directory, made where it was missing.

    Raises:
        NoStateError: there is none, or it cannot be used.
    """
    if directory is None:
        raise NoStateError(
            "the gateway needs a state directory, and this user has no home; set PALLAS_STATE_DIR"
        )
    try:
        ensure_private(directory)
    except ConfigurationError as error:
        raise NoStateError("; ".join(map(str, error.problems))) from error
    return directory
