"""What is to be done after an event, and the agent as it is then. Frozen values.

Times are seconds on the engine's clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pallas_supervisor.lifecycle.states import Agent, SecondWorkerState


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
    reason: str | None = None
    """Why, where the exit is to say it."""


@dataclass(frozen=True, slots=True)
class Reap:
    """Kill what is left of the group, reap, and say `Reaped` when nothing is left."""

    generation: int


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Say `Elapsed(epoch)` after so many seconds; a state change cancels it."""

    timer_epoch: int
    seconds: float


@dataclass(frozen=True, slots=True)
class SetSecondWorkerTimer:
    """Say `SecondWorkerElapsed(generation, state)` after so many seconds; a change of the second worker cancels it."""

    generation: int
    state: SecondWorkerState
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
    | Reap
    | SetTimer
    | SetSecondWorkerTimer
    | ReplacementFailed
    | CountRestart
    | ObserveStart
)


@dataclass(frozen=True, slots=True)
class Step:
    """The agent after an event, and what is to be done."""

    agent: Agent
    effects: tuple[Effect, ...] = ()
