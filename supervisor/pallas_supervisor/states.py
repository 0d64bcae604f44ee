"""The words of the machine: states, policies, events and effects, all frozen values.

Knows nothing of processes, clocks or asyncio. Times are seconds on the engine's clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pallas_registry.deployment import DependencyLossPolicy, RestartPolicy


class State(StrEnum):
    """Where an agent's worker is in its life."""

    STOPPED = "stopped"
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


class CompanionState(StrEnum):
    """Where the second process of an agent is, during a graceful replacement and after it."""

    STARTING = "starting"
    """The new worker, which is not ready yet; the old one serves."""
    DRAINING = "draining"
    """The old worker, told to finish its calls; the new one serves."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """An agent's rules. Times in seconds."""

    restart: RestartPolicy = "always"
    start_timeout: float = 60.0
    stop_timeout: float = 10.0
    max_failures: int = 5
    reset_after: float = 60.0
    on_dependency_loss: DependencyLossPolicy = "keep"


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
class Companion:
    """The second process of an agent: one that is to replace the first, or one that has been replaced."""

    generation: int
    state: CompanionState
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
    epoch: int = 0
    """Counts state changes; a timer belongs to the epoch in which it was set."""
    generation: int = 0
    """The spawn that the state is about; an event of a process belongs to its generation."""
    newest: int = 0
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
    companion: Companion | None = None

    @property
    def has_process(self) -> bool:
        """Whether a process of it exists or may yet come to exist."""
        return self.live or self.companion is not None

    @property
    def generations(self) -> tuple[int, ...]:
        """The generations of which a process may live."""
        return (self.generation,) if self.companion is None else (self.generation, self.companion.generation)

    @property
    def is_replacing(self) -> bool:
        """Whether a new worker is starting beside the one that serves."""
        return self.companion is not None and self.companion.state is CompanionState.STARTING

    @property
    def is_stuck(self) -> bool:
        """Whether a second process is there for good: it cannot be killed."""
        return self.companion is not None and self.companion.state is CompanionState.STUCK

    @property
    def is_surging(self) -> bool:
        """Whether a second process is there for a while."""
        return self.companion is not None and not self.is_stuck


# --- events ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Start:
    """The operator wants the agent up."""


@dataclass(frozen=True, slots=True)
class Stop:
    """The operator wants the agent down."""


@dataclass(frozen=True, slots=True)
class Restart:
    """The operator wants a new process, and the agent up; the old process ends first."""


@dataclass(frozen=True, slots=True)
class Replace:
    """A new process is wanted, and the agent up; the old one serves until the new one is ready."""

    cause: str
    """`operator`, `reload`, `memory`: why it will count as a restart."""


@dataclass(frozen=True, slots=True)
class Proceed:
    """The replacement that is due may begin now."""


@dataclass(frozen=True, slots=True)
class Keep:
    """The replacement that is due and has not begun is not wanted any more."""


@dataclass(frozen=True, slots=True)
class Redefine:
    """The definition changed; `respawn` if the running process does not fit it any more."""

    policy: Policy
    respawn: bool


@dataclass(frozen=True, slots=True)
class Rebind:
    """The definition changed, and the agent is served on another socket from now on."""

    policy: Policy


@dataclass(frozen=True, slots=True)
class DependenciesReady:
    """All that the agent depends on is READY."""


@dataclass(frozen=True, slots=True)
class DependencyLost:
    """Something that the agent depends on has left READY."""

    name: str


@dataclass(frozen=True, slots=True)
class Spawned:
    """The process exists."""

    generation: int
    pid: int


@dataclass(frozen=True, slots=True)
class SpawnFailed:
    """There will be no process for this generation."""

    generation: int
    message: str
    permanent: bool = False
    exhausted: bool = False
    """Descriptors, memory or processes have run out: the machine's trouble, which is not the agent's failure."""


@dataclass(frozen=True, slots=True)
class Ready:
    """The worker said so, and a probe agreed."""

    generation: int


@dataclass(frozen=True, slots=True)
class Complained:
    """The worker said why it is about to exit."""

    generation: int
    message: str


@dataclass(frozen=True, slots=True)
class Unhealthy:
    """The worker's serving loop has missed too many heartbeats."""

    generation: int
    message: str


@dataclass(frozen=True, slots=True)
class Died:
    """The process has ended, its group may live."""

    generation: int
    exit: Exit


@dataclass(frozen=True, slots=True)
class Swept:
    """Nothing is left of the process or its group."""

    generation: int


@dataclass(frozen=True, slots=True)
class Elapsed:
    """The timer of this epoch's state has run out."""

    epoch: int


@dataclass(frozen=True, slots=True)
class CompanionElapsed:
    """The companion of this generation has been in this state for as long as it may."""

    generation: int
    state: CompanionState


Event = (
    Start
    | Stop
    | Restart
    | Replace
    | Proceed
    | Keep
    | Redefine
    | Rebind
    | DependenciesReady
    | DependencyLost
    | Spawned
    | SpawnFailed
    | Ready
    | Complained
    | Unhealthy
    | Died
    | Swept
    | Elapsed
    | CompanionElapsed
)

OF_GENERATION = (Spawned, SpawnFailed, Ready, Complained, Unhealthy, Died, Swept)
"""Events of a process: no-ops unless they carry the generation of the agent or of its companion."""


# --- effects --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Spawn:
    """Start a process for this generation."""

    generation: int


@dataclass(frozen=True, slots=True)
class Terminate:
    """Ask the process to drain and exit (SIGTERM)."""

    generation: int


@dataclass(frozen=True, slots=True)
class Kill:
    """End the process and its group (SIGKILL)."""

    generation: int


@dataclass(frozen=True, slots=True)
class Sweep:
    """Kill what is left of the group, reap, and say `Swept` when nothing is left."""

    generation: int


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Say `Elapsed(epoch)` after so many seconds; a state change cancels it."""

    epoch: int
    seconds: float


@dataclass(frozen=True, slots=True)
class SetCompanionTimer:
    """Say `CompanionElapsed(generation, state)` after so many seconds; a change of the companion cancels it."""

    generation: int
    state: CompanionState
    seconds: float


@dataclass(frozen=True, slots=True)
class ReplacementFailed:
    """The new worker did not become ready; the old one goes on serving."""

    cause: str
    message: str


@dataclass(frozen=True, slots=True)
class CountRestart:
    """A process is started again, for this reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class ObserveStart:
    """It took so many seconds from spawn to ready."""

    seconds: float


Effect = (
    Spawn
    | Terminate
    | Kill
    | Sweep
    | SetTimer
    | SetCompanionTimer
    | ReplacementFailed
    | CountRestart
    | ObserveStart
)


@dataclass(frozen=True, slots=True)
class Step:
    """The agent after an event, and what is to be done."""

    agent: Agent
    effects: tuple[Effect, ...] = ()
