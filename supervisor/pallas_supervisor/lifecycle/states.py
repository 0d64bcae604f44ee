"""What an agent is at one moment: its state, policy, last exit and second worker, all frozen values.

Knows nothing of processes, clocks or asyncio. Times are seconds on the engine's clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pallas_common.protocol.agent.settings import DependencyLossPolicy, RestartPolicy, StartPolicy


class WorkerId(NamedTuple):
    """One start of an agent, and so one worker; generations count an agent's starts."""

    name: str
    generation: int


def label(name: str) -> str:
    """What people read for a name: those that no agent can have, of what is supervised beside them, begin with `@`."""
    return name.removeprefix("@")


class State(StrEnum):
    """Where an agent's worker is in its life."""

    STOPPED = "stopped"
    IDLE = "idle"
    """Wanted, and there as soon as somebody connects: only agents that start on demand."""
    WAITING = "waiting"
    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"
    KILLING = "killing"
    BACKOFF = "backoff"
    FAILED = "failed"


RESTING = frozenset({State.STOPPED, State.FAILED})
"""States that nothing but an operator, or a changed definition, leaves."""

WITH_PROCESS = frozenset({State.STARTING, State.READY, State.STOPPING, State.KILLING})
"""States in which a process may live."""


class Desired(StrEnum):
    """What the operator wants."""

    UP = "up"
    DOWN = "down"


class SecondWorkerState(StrEnum):
    """Where the second process of an agent is, during a graceful replacement and after it."""

    STARTING = "starting"
    """The new worker, which is not ready yet; the old one serves."""
    DRAINING = "draining"
    """The old worker, asked to finish its calls; the new one serves."""
    KILLING = "killing"
    """Either of the two, killed or dead, until nothing is left of it."""
    STUCK = "stuck"
    """Cannot be killed."""


class After(StrEnum):
    """What follows once the process is gone, as long as the agent is still desired."""

    EXIT = "exit"
    """It ended by itself: the restart policy decides."""
    FAILURE = "failure"
    """It was ended because it had failed: the restart policy decides."""
    RESTART = "restart"
    """It was ended in order to start again."""
    IDLE = "idle"
    """It was ended because nobody called: the next connection starts another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """An agent's rules. Times in seconds."""

    start: StartPolicy = "always"
    idle_timeout: float = 300.0
    restart: RestartPolicy = "always"
    start_timeout: float = 60.0
    stop_timeout: float = 10.0
    max_failures: int = 5
    reset_after: float = 60.0
    on_dependency_loss: DependencyLossPolicy = "keep"

    @property
    def on_demand(self) -> bool:
        """Whether a worker is there only while somebody calls."""
        return self.start == "on-demand"


OUT_OF_MEMORY = "out of memory"
"""The reason of an exit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How a process ended: exactly one of `status` and `signal` is set."""

    status: int | None = None
    signal: int | None = None
    reason: str | None = None
    """Why, where that is known and neither number says it: `OUT_OF_MEMORY`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondWorker:
    """The second process of an agent: one that is to replace the first, or one that has been replaced."""

    generation: int
    state: SecondWorkerState
    since: float
    pid: int | None = None
    cause: str = ""
    """Why the agent is being replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """All that the machine knows of one agent."""

    name: str
    policy: Policy
    state: State = State.STOPPED
    desired: Desired = Desired.DOWN
    warm: bool = False
    """Whether the operator wants a worker now, whoever calls: until one has been READY."""
    timer_epoch: int = 0
    """Counts state changes; a timer belongs to the epoch in which it was set."""
    generation: int = 0
    """The spawn that the state is about; an event of a process belongs to its generation."""
    last_generation: int = 0
    """Counts spawns: the highest generation so far."""
    live: bool = False
    """Whether a process of this generation exists or may yet come to exist."""
    pid: int | None = None
    was_ready: bool = False
    """Whether this generation has been READY."""
    failures: int = 0
    """Failures in a row."""
    restarts: int = 0
    cause: str | None = None
    """Why the next start is a restart; None for a first start."""
    after: After = After.EXIT
    since: float = 0.0
    retry_at: float | None = None
    message: str = ""
    last_exit: Exit | None = None
    replace: str | None = None
    """Why a READY agent is to be replaced gracefully, as soon as it is its turn."""
    second_worker: SecondWorker | None = None

    @property
    def has_process(self) -> bool:
        """Whether a process of it exists or may yet come to exist."""
        return self.live or self.second_worker is not None

    @property
    def is_available(self) -> bool:
        """Whether what depends on it may count on it: it serves, or will as soon as somebody connects.

        An agent that starts on demand stays available while it wakes and while it goes idle: connections wait.
        """
        if self.state in (State.READY, State.IDLE):
            return True
        if not self.policy.on_demand or self.desired is Desired.DOWN:
            return False
        if self.state in (State.STOPPING, State.KILLING):
            return self.after is After.IDLE
        return self.state in (State.WAITING, State.STARTING)

    @property
    def generations(self) -> tuple[int, ...]:
        """The generations of which a process may live."""
        return (
            (self.generation,)
            if self.second_worker is None
            else (self.generation, self.second_worker.generation)
        )

    def may_live(self, generation: int) -> bool:
        """Whether a process of this generation exists or may yet come to exist."""
        if self.second_worker is not None and generation == self.second_worker.generation:
            return True
        return self.live and generation == self.generation

    @property
    def is_replacing(self) -> bool:
        """Whether a new worker is starting beside the one that serves."""
        return self.second_worker is not None and self.second_worker.state is SecondWorkerState.STARTING

    @property
    def is_stuck(self) -> bool:
        """Whether a second process is there for good: it cannot be killed."""
        return self.second_worker is not None and self.second_worker.state is SecondWorkerState.STUCK

    @property
    def is_surging(self) -> bool:
        """Whether a second process is there for a while."""
        return self.second_worker is not None and not self.is_stuck


@dataclass(frozen=True, slots=True)
class Transition:
    """One change of an agent's state, process or second worker, for observers."""

    before: Agent
    after: Agent

    @property
    def of_state(self) -> bool:
        """Whether the state itself has changed."""
        return self.before.state is not self.after.state
