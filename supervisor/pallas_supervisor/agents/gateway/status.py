"""What operators see of the gateway: its entry in the status document, and its health.

Knows the engine that steps it, and what its process reports; changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pallas_common.protocol.gateway import GATEWAY_NAME
from pallas_common.times import ago
from pallas_supervisor.agents.status import agent_status, say_why
from pallas_supervisor.health.document import agent_health
from pallas_supervisor.lifecycle.states import Desired, State
from pallas_supervisor.sockets.listeners import connectable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pallas_common.protocol.gateway import GatewaySettings
    from pallas_supervisor.agents.engine import Engine
    from pallas_supervisor.health.history import HealthHistory
    from pallas_supervisor.health.reports import WorkerReports
    from pallas_supervisor.lifecycle.states import Agent

_OF_AGENTS = (
    "name",
    "socket",
    "url",
    "start",
    "source",
    "depends_on",
    "outdated",
    "changed_code",
    "replacing",
)
"""Fields of an agent's entry that mean nothing here."""

_IN_WORDS: Mapping[State, str] = {
    State.STOPPED: "is stopped",
    State.WAITING: "waits to be started",
    State.STARTING: "is starting",
    State.READY: "is ready",
    State.STOPPING: "is stopping",
    State.KILLING: "is being killed",
    State.BACKOFF: "waits to be started again",
    State.FAILED: "has failed",
}
"""What it does in a state, after its name."""


class GatewayStatus:
    """Reads it from the parts that know it.

    Args:
        settings: as they were last loaded; None where there is no gateway.
        memory: bytes of resident memory of a process, None if it is gone.
    """

    def __init__(
        self,
        engine: Engine,
        reports: WorkerReports,
        history: HealthHistory,
        settings: Callable[[], GatewaySettings | None],
        memory: Callable[[int], int | None],
    ) -> None:
        self._engine = engine
        self._reports = reports
        self._history = history
        self._settings = settings
        self._memory = memory

    @property
    def agent(self) -> Agent | None:
        """The machine's part; None where there is no gateway."""
        return self._engine.agents.get(GATEWAY_NAME)

    def why(self, agent: Agent) -> str:
        """One line on why it is in its state; empty when there is nothing to say."""
        return say_why(agent, (), self._engine.agents, self._engine.now())

    def condition(self, agent: Agent) -> tuple[str, str]:
        """Its health in the word of the status document, and what its process says of it, or nothing."""
        report = self._reports.health(agent)
        if agent.state is State.READY:
            return ("ok", "") if report is None else (report.status, report.message or "")
        return "error" if agent.state in (State.BACKOFF, State.FAILED) else "unknown", ""

    def cannot_answer(self, agent: Agent) -> bool:
        """Whether it serves, and says that it can answer nothing: its store is not there."""
        return agent.state is State.READY and self.condition(agent)[0] == "error"

    def note_health(self, agent: Agent) -> None:
        """Note since when its health is what it is now."""
        self._history.note(agent.name, agent_health(agent, self._reports.health(agent)), ago())

    def entry(self) -> dict[str, Any] | None:
        """What the status document says of it; None where there is none."""
        agent, settings = self.agent, self._settings()
        if agent is None or settings is None:
            return None
        health, said = self.condition(agent)
        entry = agent_status(
            agent,
            port=settings.port,
            url=None,
            depends_on=(),
            message=self.why(agent) or said,
            health=health,
            memory=None if agent.pid is None else self._memory(agent.pid),
            age=self._engine.now() - agent.since,
            start="always",
            source={},
            stale_files=(),
            changed_code=(),
        )
        kept = {name: value for name, value in entry.items() if name not in _OF_AGENTS}
        address = connectable(settings.bind)
        host = f"[{address}]" if ":" in address else address
        return {
            **kept,
            "bind": settings.bind,
            "url": f"http://{host}:{settings.port}",
            "public_url": settings.public_url,
            "workers": settings.workers,
        }

    def health(self) -> dict[str, Any] | None:
        """What the document of `GET /health` says of it; None where there is none, or should be none."""
        agent = self.agent
        if agent is None or agent.desired is not Desired.UP:
            return None
        if self._history.since(agent.name) is None:  # it has not moved yet
            self.note_health(agent)
        report = self._reports.health(agent) if agent.state is State.READY else None
        status = agent_health(agent, report)
        entry: dict[str, Any] = {
            "status": status,
            "state": str(agent.state),
            "since": self._history.since(agent.name),
        }
        if status != "ok":
            said = report.message if report is not None else None
            entry["message"] = (
                said or self.why(agent) or f"the gateway {_IN_WORDS.get(agent.state, f'is {agent.state}')}"
            )
        return entry

    def trouble(self) -> str | None:
        """Why it does not serve though it should, in one line."""
        agent = self.agent
        if agent is None or agent.desired is not Desired.UP:
            return None
        if agent.is_available:
            return self.condition(agent)[1] or "it cannot answer" if self.cannot_answer(agent) else None
        return self.why(agent) or str(agent.state)
