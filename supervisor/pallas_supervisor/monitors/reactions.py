"""What becomes of workers that stop beating or take too much memory: the machine's events, and lines in the log.

Knows the engine; `heartbeats` and `memory` watch and judge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pallas_common.logs.setup import get_logger
from pallas_common.sizes import describe_size
from pallas_supervisor.lifecycle.events import KillNow, RollingRestart, Unhealthy
from pallas_supervisor.lifecycle.states import OUT_OF_MEMORY, State, WorkerId, label
from pallas_supervisor.monitors.heartbeats import HeartbeatMonitor
from pallas_supervisor.monitors.memory import SOFT, MemoryMonitor, MemoryUse, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pallas_supervisor.lifecycle.events import Event
    from pallas_supervisor.lifecycle.states import Agent
    from pallas_supervisor.processes.launcher import Launcher

_log = get_logger("pallas.supervisor.guards")


class Engine(Protocol):
    """The agents, and who takes what happens to them."""

    @property
    def agents(self) -> Mapping[str, Agent]:
        """The agents as they are."""

    def post(self, name: str, event: Event) -> None:
        """Have the agent's machine take the event."""


class Reactions:
    """Watches over all workers.

    Args:
        take_in: reads what lies in a worker's pipes.
        misses: the agent's `liveness_misses`.
    """

    def __init__(
        self,
        engine: Engine,
        launcher: Launcher,
        take_in: Callable[[WorkerId], None],
        misses: Callable[[str], int],
    ) -> None:
        self._engine = engine
        self._launcher = launcher
        self.take_in = take_in
        self._misses = misses
        self._heartbeats = HeartbeatMonitor(self)
        self._memory = MemoryMonitor(launcher, self)

    def beat(self, worker_id: WorkerId, interval: float) -> None:
        """A worker's heartbeat came, the next one is due in `interval` seconds."""
        if (process := self._launcher.worker(worker_id)) is not None:
            self._heartbeats.beat(worker_id, process.pid, interval)

    def settle(self, worker_id: WorkerId) -> None:
        """A worker says that it is ready."""
        self._memory.settle(worker_id)

    def process_gone(self, worker_id: WorkerId) -> None:
        """Watch a worker no more of which nothing is left."""
        self._heartbeats.forget(worker_id)
        self._memory.forget(worker_id)

    @property
    def memory(self) -> dict[str, tuple[int, int]]:
        """Bytes taken and allowed, of each agent with a `memory_limit`, as they were seen last."""
        return self._memory.newest

    # --- for the monitors ----------------------------------------------------------------------

    def is_serving(self, worker: WorkerId) -> bool:
        """Whether the worker serves its agent: not one that starts or drains beside it."""
        agent = self._engine.agents.get(worker.name)
        return agent is not None and agent.state is State.READY and agent.generation == worker.generation

    def allowed_misses(self, worker: WorkerId) -> int:
        """The agent's `liveness_misses` while the worker serves, else 0."""
        return self._misses(worker.name) if self.is_serving(worker) else 0

    def lost(self, worker: WorkerId, message: str) -> None:
        """Its serving loop has stopped: have it killed and started again."""
        _log.error(f"{label(worker.name)}: {message}", agent=label(worker.name), generation=worker.generation)
        self._engine.post(worker.name, Unhealthy(worker.generation, message))

    def judged(self, worker: WorkerId, verdict: Verdict, memory_use: MemoryUse) -> None:
        """It takes too much memory: have it replaced, or killed."""
        used, limit = describe_size(memory_use.used), describe_size(memory_use.limit)
        log = _log.bind(
            agent=label(worker.name),
            generation=worker.generation,
            memory=memory_use.used,
            memory_limit=memory_use.limit,
        )
        soft = f"more than {SOFT * 100:.0f} % of its memory_limit, {limit}"
        if verdict is Verdict.OVER:
            log.error(f"{label(worker.name)}: takes {used} and may take {limit}: killed")
            self._engine.post(worker.name, KillNow(worker.generation, OUT_OF_MEMORY))
        elif verdict is Verdict.UNDERSIZED:
            log.warning(f"{label(worker.name)}: takes {used} from the start, {soft}: raise the limit")
        else:
            log.warning(f"{label(worker.name)}: takes {used}, {soft}: it is being replaced")
            self._engine.post(worker.name, RollingRestart("memory"))
