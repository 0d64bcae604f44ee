"""The life of one agent as a table of states × events. Pure: no asyncio, os, clock or random.

`step` is the only entrance. A row of `TABLE` names the function of `actions` that acts and the states that it may
lead to; the diagram in the documentation is generated from the rows, and a test shows that none is missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pallas_supervisor import actions as do
from pallas_supervisor.states import (
    OF_GENERATION,
    Agent,
    Complained,
    DependenciesReady,
    DependencyLost,
    Died,
    Elapsed,
    Event,
    Ready,
    Redefine,
    Restart,
    Spawned,
    SpawnFailed,
    Start,
    State,
    Step,
    Stop,
    Swept,
    Unhealthy,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pallas_supervisor.actions import Moment


def step(agent: Agent, event: Event, *, now: float, draw: float) -> Step:
    """What becomes of `agent` through `event`.

    Args:
        now: seconds on a clock that never goes back.
        draw: a random number in [0, 1), for the jitter of the back-off.

    Events that carry another generation, or a timer of another epoch, change nothing.
    """
    if isinstance(event, OF_GENERATION) and event.generation != agent.generation:
        return Step(agent)
    if isinstance(event, Elapsed) and event.epoch != agent.epoch:
        return Step(agent)
    return TABLE[agent.state, type(event)].act(agent, event, do.Moment(now, draw))


# --- the table --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Row:
    """What is done, and the states to which it may lead beside the present one."""

    act: Callable[[Agent, Any, Moment], Step]
    to: tuple[State, ...] = ()


IGNORE = Row(do.ignore)
"""The row of what means nothing in a state."""
_AFTER_PROCESS = (State.STOPPED, State.WAITING, State.BACKOFF, State.FAILED)

_ROWS: Mapping[State, Mapping[type[Event], Row]] = {
    State.STOPPED: {
        Start: Row(do.start_resting, (State.WAITING,)),
        Restart: Row(do.start_resting, (State.WAITING,)),
        Stop: IGNORE,
        Redefine: Row(do.redefine),
    },
    State.WAITING: {
        Start: Row(do.want_up),
        Restart: Row(do.want_up),
        Stop: Row(do.stop_without_process, (State.STOPPED,)),
        Redefine: Row(do.redefine),
        DependenciesReady: Row(do.spawn, (State.STARTING,)),
    },
    State.STARTING: {
        Start: Row(do.want_up),
        Restart: Row(do.restart_running, (State.STOPPING,)),
        Stop: Row(do.stop_running, (State.STOPPING,)),
        Redefine: Row(do.redefine_running, (State.STOPPING,)),
        DependencyLost: Row(do.lose_dependency, (State.STOPPING,)),
        Spawned: Row(do.learn_pid),
        SpawnFailed: Row(do.spawn_failed, (State.BACKOFF, State.FAILED)),
        Ready: Row(do.become_ready, (State.READY,)),
        Complained: Row(do.note),
        Died: Row(do.die_unasked, (State.KILLING,)),
        Elapsed: Row(do.start_timed_out, (State.STOPPING,)),
    },
    State.READY: {
        Start: Row(do.want_up),
        Restart: Row(do.restart_running, (State.STOPPING,)),
        Stop: Row(do.stop_running, (State.STOPPING,)),
        Redefine: Row(do.redefine_running, (State.STOPPING,)),
        DependencyLost: Row(do.lose_dependency, (State.STOPPING,)),
        Complained: Row(do.note),
        Unhealthy: Row(do.become_unhealthy, (State.STOPPING,)),
        Died: Row(do.die_unasked, (State.KILLING,)),
        Elapsed: Row(do.become_stable),
    },
    State.STOPPING: {
        Start: Row(do.want_up_again),
        Restart: Row(do.restart_again),
        Stop: Row(do.want_down),
        Redefine: Row(do.redefine_ending),
        Spawned: Row(do.terminate_late),
        SpawnFailed: Row(do.spawn_failed, _AFTER_PROCESS),
        Died: Row(do.die, (State.KILLING,)),
        Elapsed: Row(do.stop_timed_out, (State.KILLING,)),
    },
    State.KILLING: {
        Start: Row(do.want_up_again),
        Restart: Row(do.restart_again),
        Stop: Row(do.want_down),
        Redefine: Row(do.redefine_ending),
        Spawned: Row(do.kill_late),
        SpawnFailed: Row(do.spawn_failed, _AFTER_PROCESS),
        Died: Row(do.die_killed),
        Swept: Row(do.settle, _AFTER_PROCESS),
        Elapsed: Row(do.kill_timed_out, (State.FAILED,)),
    },
    State.BACKOFF: {
        Start: Row(do.start_now, (State.WAITING,)),
        Restart: Row(do.start_now, (State.WAITING,)),
        Stop: Row(do.stop_without_process, (State.STOPPED,)),
        Redefine: Row(do.redefine_waiting_out, (State.WAITING,)),
        Elapsed: Row(do.try_again, (State.WAITING,)),
    },
    State.FAILED: {
        Start: Row(do.start_resting, (State.WAITING, State.KILLING)),
        Restart: Row(do.start_resting, (State.WAITING, State.KILLING)),
        Stop: Row(do.stop_without_process, (State.STOPPED, State.KILLING)),
        Redefine: Row(do.redefine_failed, (State.WAITING, State.KILLING)),
        Spawned: Row(do.kill_late),
        Died: Row(do.die_killed),
        Swept: Row(do.vanish_late, (State.STOPPED,)),
        SpawnFailed: Row(do.vanish_late, (State.STOPPED,)),
    },
}

_IGNORED: Mapping[State, tuple[type[Event], ...]] = {
    State.STOPPED: (
        DependenciesReady, DependencyLost, Spawned, SpawnFailed, Ready, Complained, Unhealthy, Died, Swept, Elapsed,
    ),
    State.WAITING: (DependencyLost, Spawned, SpawnFailed, Ready, Complained, Unhealthy, Died, Swept, Elapsed),
    State.STARTING: (DependenciesReady, Unhealthy, Swept),
    State.READY: (DependenciesReady, Spawned, SpawnFailed, Ready, Swept),
    State.STOPPING: (DependenciesReady, DependencyLost, Ready, Complained, Unhealthy, Swept),
    State.KILLING: (DependenciesReady, DependencyLost, Ready, Complained, Unhealthy),
    State.BACKOFF: (
        DependenciesReady, DependencyLost, Spawned, SpawnFailed, Ready, Complained, Unhealthy, Died, Swept,
    ),
    State.FAILED: (DependenciesReady, DependencyLost, Ready, Complained, Unhealthy, Elapsed),
}  # fmt: skip
"""Written out, so that a new event is a decision in every state."""

TABLE: Mapping[tuple[State, type[Event]], Row] = {
    **{(state, event): row for state, rows in _ROWS.items() for event, row in rows.items()},
    **{(state, event): IGNORE for state, events in _IGNORED.items() for event in events},
}
