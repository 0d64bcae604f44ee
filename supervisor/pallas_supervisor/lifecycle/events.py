"""What happens to an agent: from operators, from other agents, from its processes, from timers. Frozen values.

Times are seconds on the engine's clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pallas_supervisor.lifecycle.states import Exit, Policy, SecondWorkerState


@dataclass(frozen=True, slots=True)
class Arm:
    """The deployment wants the agent up: running, or idle if it starts on demand."""


@dataclass(frozen=True, slots=True)
class Start:
    """The operator wants the agent up, and a worker now, also if it starts on demand."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A connection waits on the agent's socket."""


@dataclass(frozen=True, slots=True)
class Stop:
    """The operator wants the agent down."""


@dataclass(frozen=True, slots=True)
class HardRestart:
    """The operator wants a new process, and the agent up; the old process ends first."""


@dataclass(frozen=True, slots=True)
class RollingRestart:
    """A new process is wanted, and the agent up; the old one serves until the new one is ready."""

    cause: str
    """`operator`, `reload`, `memory`: why it will count as a restart."""


@dataclass(frozen=True, slots=True)
class BeginReplacement:
    """The replacement that is due may begin now."""


@dataclass(frozen=True, slots=True)
class CancelReplacement:
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
    """All that the agent depends on is available."""


@dataclass(frozen=True, slots=True)
class DependencyLost:
    """Something that the agent depends on is not available any more."""

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
class StartFailureReported:
    """The worker said why it is about to exit."""

    generation: int
    message: str


@dataclass(frozen=True, slots=True)
class BecameIdle:
    """The worker has had no call for the agent's `idle_timeout`."""

    generation: int


@dataclass(frozen=True, slots=True)
class Unhealthy:
    """The worker's serving loop has missed too many heartbeats."""

    generation: int
    message: str


@dataclass(frozen=True, slots=True)
class KillNow:
    """The process is to end at once, whatever it does; what follows is decided by its end."""

    generation: int
    reason: str | None = None
    """Goes into the exit: `OUT_OF_MEMORY`."""


@dataclass(frozen=True, slots=True)
class Died:
    """The process has ended, its group may live."""

    generation: int
    exit: Exit


@dataclass(frozen=True, slots=True)
class Reaped:
    """Nothing is left of the process or its group."""

    generation: int


@dataclass(frozen=True, slots=True)
class Elapsed:
    """The timer of this epoch's state has run out."""

    timer_epoch: int


@dataclass(frozen=True, slots=True)
class SecondWorkerElapsed:
    """The second worker of this generation has been in this state for as long as it may."""

    generation: int
    state: SecondWorkerState


Event = (
    Arm
    | Start
    | Wanted
    | Stop
    | HardRestart
    | RollingRestart
    | BeginReplacement
    | CancelReplacement
    | Redefine
    | Rebind
    | DependenciesReady
    | DependencyLost
    | Spawned
    | SpawnFailed
    | Ready
    | StartFailureReported
    | BecameIdle
    | Unhealthy
    | KillNow
    | Died
    | Reaped
    | Elapsed
    | SecondWorkerElapsed
)

OF_GENERATION = (
    Spawned, SpawnFailed, Ready, StartFailureReported, BecameIdle, Unhealthy, KillNow, Died, Reaped,
)  # fmt: skip
"""Events of a process: no-ops unless they carry the generation of the agent or of its second worker."""
