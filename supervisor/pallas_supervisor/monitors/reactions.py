"""What becomes of workers that stop beating or take too much memory: the machine's events, and lines in the log.

Knows the fleet; `liveness` and `footprints` watch and judge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pallas_common.logs.setup import get_logger
from pallas_common.sizes import describe_size
from pallas_supervisor.lifecycle.events import RollingRestart, Unhealthy
from pallas_supervisor.lifecycle.states import OUT_OF_MEMORY, State, WorkerId
from pallas_supervisor.monitors.heartbeats import HeartbeatMonitor
from pallas_supervisor.monitors.memory import SOFT, MemoryMonitor, MemoryUse, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pallas_registry.deployment.model import Deployment
    from pallas_supervisor.lifecycle.events import Event
    from pallas_supervisor.lifecycle.states import Agent
    from pallas_supervisor.processes.launcher import Launcher
    from pallas_supervisor.processes.pipes.intake import Intake

_log = get_logger("pallas.supervisor.guards")


class Engine(Protocol):
    """Takes what happens to agents."""

    def post(self, name: str, event: Event) -> None:
        """Have the agent's machine take the event."""


class Fleet(Protocol):
    """The agents, as far as they are watched."""

    deployment: Deployment
    launcher: Launcher
    intake: Intake

    @property
    def agents(self) -> Mapping[str, Agent]:
        """The agents as they are."""

    @property
    def engine(self) -> Engine:
        """Who moves them."""


class Reactions:
    """Watches over all workers of a fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._liveness = HeartbeatMonitor(self)
        self._footprints = MemoryMonitor(fleet.launcher, self)

    def beat(self, name: str, generation: int, interval: float) -> None:
        """A worker's heartbeat came, the next one is due in `interval` seconds."""
        worker = WorkerId(name, generation)
        if (process := self._fleet.launcher.worker(worker)) is not None:
            self._liveness.beat(worker, process.pid, interval)

    def settle(self, name: str, generation: int) -> None:
        """A worker says that it is ready."""
        self._footprints.settle(WorkerId(name, generation))

    def forget(self, name: str, generation: int) -> None:
        """A worker is gone."""
        self._liveness.forget(WorkerId(name, generation))
        self._footprints.forget(WorkerId(name, generation))

    @property
    def memory(self) -> dict[str, tuple[int, int]]:
        """Bytes taken and allowed, of each agent with a `memory_limit`, as they were seen last."""
        return self._footprints.newest

    def close(self) -> None:
        """Watch nobody any more."""
        self._liveness.close()
        self._footprints.close()

    # --- for liveness and footprints ----------------------------------------------------------------------

    def is_serving(self, worker: WorkerId) -> bool:
        """Whether the worker is ready and the one that counts: not one that starts or drains beside it."""
        agent = self._fleet.agents.get(worker.name)
        return agent is not None and agent.state is State.READY and agent.generation == worker.generation

    def allowed_misses(self, worker: WorkerId) -> int:
        """The agent's `liveness_misses` while the worker serves, else 0."""
        return self._fleet.deployment.agents[worker.name].liveness_misses if self.is_serving(worker) else 0

    def take_in(self, worker: WorkerId) -> None:
        """Read what lies in the worker's pipes."""
        self._fleet.intake.drain(worker)

    def lost(self, worker: WorkerId, message: str) -> None:
        """Its serving loop has stopped: have it killed and started again."""
        extra = {"agent": worker.name, "generation": worker.generation}
        _log.error("%s: %s", worker.name, message, extra=extra)
        self._fleet.engine.post(worker.name, Unhealthy(worker.generation, message))

    def judged(self, worker: WorkerId, verdict: Verdict, footprint: MemoryUse) -> None:
        """It takes too much memory: have it replaced, or kill it."""
        used, limit = describe_size(footprint.used), describe_size(footprint.limit)
        extra = {
            "agent": worker.name,
            "generation": worker.generation,
            "memory": footprint.used,
            "memory_limit": footprint.limit,
        }
        if verdict is Verdict.OVER:
            text = "%s: takes %s and may take %s: killed"
            _log.error(text, worker.name, used, limit, extra=extra)
            self._fleet.launcher.kill(worker, reason=OUT_OF_MEMORY)
        elif verdict is Verdict.UNDERSIZED:
            text = "%s: takes %s from the start, more than %d %% of its memory_limit, %s: raise the limit"
            _log.warning(text, worker.name, used, SOFT * 100, limit, extra=extra)
        else:
            text = "%s: takes %s, more than %d %% of its memory_limit, %s: it is being replaced"
            _log.warning(text, worker.name, used, SOFT * 100, limit, extra=extra)
            self._fleet.engine.post(worker.name, RollingRestart("memory"))
