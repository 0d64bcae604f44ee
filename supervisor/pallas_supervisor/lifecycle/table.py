"""The life of one agent as a table of states × events. Pure: no asyncio, os, clock or random.

`step` is the only entrance. A row of `TABLE` names the function of `actions` that acts and the states that it may
lead to; the diagram in the documentation is generated from the rows, and a test shows that none is missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pallas_supervisor.lifecycle import actions as do
from pallas_supervisor.lifecycle.actions import Moment
from pallas_supervisor.lifecycle.effects import Step
from pallas_supervisor.lifecycle.events import (
    OF_GENERATION,
    CompanionElapsed,
    Complained,
    DependenciesReady,
    DependencyLost,
    Died,
    Elapsed,
    Event,
    Keep,
    Proceed,
    Ready,
    Rebind,
    Redefine,
    Replace,
    Restart,
    Spawned,
    SpawnFailed,
    Start,
    Stop,
    Swept,
    Unhealthy,
)
from pallas_supervisor.lifecycle.second_worker import step_companion
from pallas_supervisor.lifecycle.states import Agent, State

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pallas_supervisor.lifecycle.states import Companion


def step(agent: Agent, event: Event, *, now: float, draw: float) -> Step:
    """What becomes of `agent` through `event`.

    Args:
        now: seconds on a clock that never goes back.
        draw: a random number in [0, 1), for the jitter of the back-off.

    Events that carry another generation, or a timer of another epoch, change nothing.
    """
    companion = agent.companion
    if isinstance(event, CompanionElapsed):
        if companion is None or (companion.generation, companion.state) != (event.generation, event.state):
            return Step(agent)
        return _step_companion(agent, companion, event, Moment(now, draw))
    if isinstance(event, OF_GENERATION):
        if companion is not None and event.generation == companion.generation:
            return _step_companion(agent, companion, event, Moment(now, draw))
        if event.generation != agent.generation:
            return Step(agent)
    if isinstance(event, Elapsed) and event.epoch != agent.epoch:
        return Step(agent)
    return TABLE[agent.state, type(event)].act(agent, event, Moment(now, draw))


def _step_companion(agent: Agent, companion: Companion, event: Event, at: Moment) -> Step:
    taken = step_companion(agent, companion, event, at.now)
    then = do.lose_companion(taken.agent, at)
    return Step(then.agent, (*taken.effects, *then.effects))


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
        Replace: Row(do.start_resting, (State.WAITING,)),
        Stop: IGNORE,
        Redefine: Row(do.redefine),
        Rebind: Row(do.redefine),
    },
    State.WAITING: {
        Start: Row(do.want_up),
        Restart: Row(do.want_up),
        Replace: Row(do.want_up),
        Stop: Row(do.stop_without_process, (State.STOPPED, State.KILLING, State.FAILED)),
        Redefine: Row(do.redefine),
        Rebind: Row(do.redefine),
        DependenciesReady: Row(do.spawn, (State.STARTING,)),
    },
    State.STARTING: {
        Start: Row(do.want_up),
        Restart: Row(do.restart_running, (State.STOPPING,)),
        Replace: Row(do.restart_running, (State.STOPPING,)),
        Stop: Row(do.stop_running, (State.STOPPING,)),
        Redefine: Row(do.redefine_starting, (State.STOPPING,)),
        Rebind: Row(do.rebind_running, (State.STOPPING,)),
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
        Replace: Row(do.restart_gracefully, (State.STOPPING,)),
        Proceed: Row(do.begin_replacement),
        Keep: Row(do.keep_running),
        Stop: Row(do.stop_running, (State.STOPPING,)),
        Redefine: Row(do.redefine_ready, (State.STOPPING,)),
        Rebind: Row(do.rebind_running, (State.STOPPING,)),
        DependencyLost: Row(do.lose_dependency, (State.STOPPING,)),
        Complained: Row(do.note),
        Unhealthy: Row(do.become_unhealthy, (State.KILLING, State.STARTING)),
        Died: Row(do.die_serving, (State.KILLING, State.STARTING)),
        Elapsed: Row(do.become_stable),
    },
    State.STOPPING: {
        Start: Row(do.want_up_again),
        Restart: Row(do.restart_again),
        Replace: Row(do.restart_again),
        Stop: Row(do.want_down),
        Redefine: Row(do.redefine_ending),
        Rebind: Row(do.rebind_ending),
        Spawned: Row(do.terminate_late),
        SpawnFailed: Row(do.spawn_failed, (*_AFTER_PROCESS, State.KILLING)),
        Complained: Row(do.note_where),
        Died: Row(do.die, (State.KILLING,)),
        Elapsed: Row(do.stop_timed_out, (State.KILLING,)),
    },
    State.KILLING: {
        Start: Row(do.want_up_again, (State.WAITING,)),
        Restart: Row(do.restart_again, (State.WAITING,)),
        Replace: Row(do.restart_again, (State.WAITING,)),
        Stop: Row(do.want_down),
        Redefine: Row(do.redefine_ending),
        Rebind: Row(do.rebind_ending),
        Spawned: Row(do.kill_late),
        SpawnFailed: Row(do.spawn_failed, _AFTER_PROCESS),
        Died: Row(do.die_killed),
        Swept: Row(do.settle, _AFTER_PROCESS),
        Elapsed: Row(do.kill_timed_out, (State.FAILED,)),
    },
    State.BACKOFF: {
        Start: Row(do.start_now, (State.WAITING,)),
        Restart: Row(do.start_now, (State.WAITING,)),
        Replace: Row(do.start_now, (State.WAITING,)),
        Stop: Row(do.stop_without_process, (State.STOPPED, State.KILLING, State.FAILED)),
        Redefine: Row(do.redefine_waiting_out, (State.WAITING,)),
        Rebind: Row(do.redefine_waiting_out, (State.WAITING,)),
        Elapsed: Row(do.try_again, (State.WAITING,)),
    },
    State.FAILED: {
        Start: Row(do.start_resting, (State.WAITING, State.KILLING)),
        Restart: Row(do.start_resting, (State.WAITING, State.KILLING)),
        Replace: Row(do.start_resting, (State.WAITING, State.KILLING)),
        Stop: Row(do.stop_without_process, (State.STOPPED, State.KILLING)),
        Redefine: Row(do.redefine_failed, (State.WAITING, State.KILLING)),
        Rebind: Row(do.redefine_failed, (State.WAITING, State.KILLING)),
        Spawned: Row(do.kill_late),
        Died: Row(do.die_killed),
        Swept: Row(do.vanish_late, (State.STOPPED, State.WAITING, State.BACKOFF, State.KILLING)),
        SpawnFailed: Row(do.vanish_late, (State.STOPPED, State.WAITING, State.BACKOFF, State.KILLING)),
    },
}

_ASIDE = (Proceed, Keep, CompanionElapsed)
"""What is about replacements, which only an agent that is READY has."""

_IGNORED: Mapping[State, tuple[type[Event], ...]] = {
    State.STOPPED: (
        *_ASIDE, DependenciesReady, DependencyLost, Spawned, SpawnFailed, Ready, Complained, Unhealthy, Died, Swept,
        Elapsed,
    ),
    State.WAITING: (
        *_ASIDE, DependencyLost, Spawned, SpawnFailed, Ready, Complained, Unhealthy, Died, Swept, Elapsed,
    ),
    State.STARTING: (*_ASIDE, DependenciesReady, Unhealthy, Swept),
    State.READY: (CompanionElapsed, DependenciesReady, Spawned, SpawnFailed, Ready, Swept),
    State.STOPPING: (*_ASIDE, DependenciesReady, DependencyLost, Ready, Unhealthy, Swept),
    State.KILLING: (*_ASIDE, DependenciesReady, DependencyLost, Ready, Complained, Unhealthy),
    State.BACKOFF: (
        *_ASIDE, DependenciesReady, DependencyLost, Spawned, SpawnFailed, Ready, Complained, Unhealthy, Died, Swept,
    ),
    State.FAILED: (*_ASIDE, DependenciesReady, DependencyLost, Ready, Complained, Unhealthy, Elapsed),
}  # fmt: skip
"""Written out, so that a new event is a decision in every state."""

TABLE: Mapping[tuple[State, type[Event]], Row] = {
    **{(state, event): row for state, rows in _ROWS.items() for event, row in rows.items()},
    **{(state, event): IGNORE for state, events in _IGNORED.items() for event in events},
}
