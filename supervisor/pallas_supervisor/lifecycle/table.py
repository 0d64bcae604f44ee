"""The life of one agent as a table of states × events. Pure: no asyncio, os, clock or random.

`step` is the only entrance. A row of `TABLE` names the function of `actions` that acts and the states that it may
lead to; the diagram in the documentation is generated from the rows, and a test shows that none is missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pallas_supervisor.lifecycle import actions as do
from pallas_supervisor.lifecycle.effects import Step
from pallas_supervisor.lifecycle.events import (
    OF_GENERATION,
    Arm,
    BecameIdle,
    BeginReplacement,
    CancelReplacement,
    DependenciesReady,
    DependencyLost,
    Died,
    Elapsed,
    Event,
    HardRestart,
    KillNow,
    Ready,
    Reaped,
    Rebind,
    Redefine,
    RollingRestart,
    SecondWorkerElapsed,
    Spawned,
    SpawnFailed,
    Start,
    StartFailureReported,
    Stop,
    Unhealthy,
    Wanted,
)
from pallas_supervisor.lifecycle.moves import Moment
from pallas_supervisor.lifecycle.second_worker import step_second_worker
from pallas_supervisor.lifecycle.states import Agent, State

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pallas_supervisor.lifecycle.states import SecondWorker


def step(agent: Agent, event: Event, *, now: float, draw: float) -> Step:
    """What becomes of `agent` through `event`.

    Args:
        now: seconds on a clock that never goes back.
        draw: a random number in [0, 1), for the jitter of the back-off.

    Events that carry another generation, or a timer of another epoch, change nothing.
    """
    second_worker = agent.second_worker
    if isinstance(event, SecondWorkerElapsed):
        if second_worker is None or (second_worker.generation, second_worker.state) != (
            event.generation,
            event.state,
        ):
            return Step(agent)
        return _step_second_worker(agent, second_worker, event, Moment(now, draw))
    if isinstance(event, OF_GENERATION):
        if second_worker is not None and event.generation == second_worker.generation:
            return _step_second_worker(agent, second_worker, event, Moment(now, draw))
        if event.generation != agent.generation:
            return Step(agent)
    if isinstance(event, Elapsed) and event.timer_epoch != agent.timer_epoch:
        return Step(agent)
    return TABLE[agent.state, type(event)].act(agent, event, Moment(now, draw))


def _step_second_worker(agent: Agent, second_worker: SecondWorker, event: Event, at: Moment) -> Step:
    taken = step_second_worker(agent, second_worker, event, at.now)
    then = do.lose_second_worker(taken.agent, at)
    return Step(then.agent, (*taken.effects, *then.effects))


# --- the table --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Row:
    """What is done, and the states to which it may lead beside the present one."""

    act: Callable[[Agent, Any, Moment], Step]
    to: tuple[State, ...] = ()


IGNORE = Row(do.ignore)
"""The row of what means nothing in a state."""
_AFTER_PROCESS = (State.STOPPED, State.IDLE, State.WAITING, State.BACKOFF, State.FAILED)
_AFTER_ALL = (State.STOPPED, State.IDLE, State.WAITING, State.BACKOFF, State.KILLING)

_ROWS: Mapping[State, Mapping[type[Event], Row]] = {
    State.STOPPED: {
        Arm: Row(do.arm_resting, (State.IDLE, State.WAITING)),
        Start: Row(do.start_resting, (State.WAITING,)),
        HardRestart: Row(do.start_resting, (State.WAITING,)),
        RollingRestart: Row(do.start_resting, (State.WAITING,)),
        Stop: IGNORE,
        Redefine: Row(do.redefine),
        Rebind: Row(do.redefine),
    },
    State.IDLE: {
        Start: Row(do.start_now, (State.WAITING,)),
        Wanted: Row(do.wake, (State.WAITING,)),
        HardRestart: Row(do.restart_idle),
        RollingRestart: Row(do.restart_idle),
        Stop: Row(do.stop_without_process, (State.STOPPED, State.KILLING, State.FAILED)),
        Redefine: Row(do.redefine_idle, (State.WAITING,)),
        Rebind: Row(do.redefine_idle, (State.WAITING,)),
    },
    State.WAITING: {
        Start: Row(do.want_warm),
        HardRestart: Row(do.want_warm),
        RollingRestart: Row(do.want_warm),
        Stop: Row(do.stop_without_process, (State.STOPPED, State.KILLING, State.FAILED)),
        Redefine: Row(do.redefine),
        Rebind: Row(do.redefine),
        DependenciesReady: Row(do.spawn, (State.STARTING,)),
    },
    State.STARTING: {
        Start: Row(do.want_warm),
        HardRestart: Row(do.restart_running, (State.STOPPING,)),
        RollingRestart: Row(do.restart_running, (State.STOPPING,)),
        Stop: Row(do.stop_running, (State.STOPPING,)),
        Redefine: Row(do.redefine_starting, (State.STOPPING,)),
        Rebind: Row(do.rebind_running, (State.STOPPING,)),
        DependencyLost: Row(do.lose_dependency, (State.STOPPING,)),
        Spawned: Row(do.learn_pid),
        SpawnFailed: Row(do.spawn_failed, (State.BACKOFF, State.FAILED)),
        Ready: Row(do.become_ready, (State.READY,)),
        StartFailureReported: Row(do.note),
        KillNow: Row(do.kill_now),
        Died: Row(do.die_unasked, (State.KILLING,)),
        Elapsed: Row(do.start_timed_out, (State.STOPPING,)),
    },
    State.READY: {
        HardRestart: Row(do.restart_running, (State.STOPPING,)),
        RollingRestart: Row(do.restart_gracefully, (State.STOPPING,)),
        BeginReplacement: Row(do.begin_replacement),
        CancelReplacement: Row(do.keep_running),
        Stop: Row(do.stop_running, (State.STOPPING,)),
        Redefine: Row(do.redefine_ready, (State.STOPPING,)),
        Rebind: Row(do.rebind_running, (State.STOPPING,)),
        DependencyLost: Row(do.lose_dependency, (State.STOPPING,)),
        StartFailureReported: Row(do.note),
        BecameIdle: Row(do.become_idle, (State.STOPPING,)),
        Unhealthy: Row(do.become_unhealthy, (State.KILLING, State.STARTING)),
        KillNow: Row(do.kill_now),
        Died: Row(do.die_serving, (State.KILLING, State.STARTING)),
        Elapsed: Row(do.become_stable),
    },
    State.STOPPING: {
        Arm: Row(do.want_up_again),
        Start: Row(do.want_warm_again),
        HardRestart: Row(do.restart_again),
        RollingRestart: Row(do.restart_again),
        Stop: Row(do.want_down),
        Redefine: Row(do.redefine_ending),
        Rebind: Row(do.rebind_ending),
        Spawned: Row(do.terminate_late),
        SpawnFailed: Row(do.spawn_failed, (*_AFTER_PROCESS, State.KILLING)),
        StartFailureReported: Row(do.note_where),
        KillNow: Row(do.kill_now),
        Died: Row(do.die, (State.KILLING,)),
        Elapsed: Row(do.stop_timed_out, (State.KILLING,)),
    },
    State.KILLING: {
        Arm: Row(do.want_up_again, (State.IDLE, State.WAITING)),
        Start: Row(do.want_warm_again, (State.WAITING,)),
        HardRestart: Row(do.restart_again, (State.WAITING,)),
        RollingRestart: Row(do.restart_again, (State.WAITING,)),
        Stop: Row(do.want_down),
        Redefine: Row(do.redefine_ending),
        Rebind: Row(do.rebind_ending),
        Spawned: Row(do.kill_late),
        SpawnFailed: Row(do.spawn_failed, _AFTER_PROCESS),
        KillNow: Row(do.kill_now),
        Died: Row(do.die_killed),
        Reaped: Row(do.settle, _AFTER_PROCESS),
        Elapsed: Row(do.kill_timed_out, (State.FAILED,)),
    },
    State.BACKOFF: {
        Arm: Row(do.arm_now, (State.IDLE, State.WAITING)),
        Start: Row(do.start_now, (State.WAITING,)),
        HardRestart: Row(do.start_now, (State.WAITING,)),
        RollingRestart: Row(do.start_now, (State.WAITING,)),
        Stop: Row(do.stop_without_process, (State.STOPPED, State.KILLING, State.FAILED)),
        Redefine: Row(do.redefine_waiting_out, (State.IDLE, State.WAITING)),
        Rebind: Row(do.redefine_waiting_out, (State.IDLE, State.WAITING)),
        Elapsed: Row(do.try_again, (State.IDLE, State.WAITING)),
    },
    State.FAILED: {
        Arm: Row(do.arm_resting, (State.IDLE, State.WAITING, State.KILLING)),
        Start: Row(do.start_resting, (State.WAITING, State.KILLING)),
        HardRestart: Row(do.start_resting, (State.WAITING, State.KILLING)),
        RollingRestart: Row(do.start_resting, (State.WAITING, State.KILLING)),
        Stop: Row(do.stop_without_process, (State.STOPPED, State.KILLING)),
        Redefine: Row(do.redefine_failed, (State.IDLE, State.WAITING, State.KILLING)),
        Rebind: Row(do.redefine_failed, (State.IDLE, State.WAITING, State.KILLING)),
        Spawned: Row(do.kill_late),
        KillNow: Row(do.kill_now),
        Died: Row(do.die_killed),
        Reaped: Row(do.vanish_late, _AFTER_ALL),
        SpawnFailed: Row(do.vanish_late, _AFTER_ALL),
    },
}

_ASIDE = (BeginReplacement, CancelReplacement, SecondWorkerElapsed)
"""What is about replacements, which only an agent that is READY has."""

_IGNORED: Mapping[State, tuple[type[Event], ...]] = {
    State.STOPPED: (
        *_ASIDE, Wanted, DependenciesReady, DependencyLost, Spawned, SpawnFailed, Ready, StartFailureReported,
        BecameIdle, Unhealthy, KillNow, Died, Reaped, Elapsed,
    ),
    State.IDLE: (
        *_ASIDE, Arm, DependenciesReady, DependencyLost, Spawned, SpawnFailed, Ready, StartFailureReported, BecameIdle,
        Unhealthy, KillNow, Died, Reaped, Elapsed,
    ),
    State.WAITING: (
        *_ASIDE, Arm, Wanted, DependencyLost, Spawned, SpawnFailed, Ready, StartFailureReported, BecameIdle, Unhealthy,
        KillNow, Died, Reaped, Elapsed,
    ),
    State.STARTING: (*_ASIDE, Arm, Wanted, DependenciesReady, BecameIdle, Unhealthy, Reaped),
    State.READY: (
        SecondWorkerElapsed, Arm, Start, Wanted, DependenciesReady, Spawned, SpawnFailed, Ready, Reaped,
    ),
    State.STOPPING: (
        *_ASIDE, Wanted, DependenciesReady, DependencyLost, Ready, BecameIdle, Unhealthy, Reaped,
    ),
    State.KILLING: (
        *_ASIDE, Wanted, DependenciesReady, DependencyLost, Ready, StartFailureReported, BecameIdle, Unhealthy,
    ),
    State.BACKOFF: (
        *_ASIDE, Wanted, DependenciesReady, DependencyLost, Spawned, SpawnFailed, Ready, StartFailureReported,
        BecameIdle, Unhealthy, KillNow, Died, Reaped,
    ),
    State.FAILED: (
        *_ASIDE, Wanted, DependenciesReady, DependencyLost, Ready, StartFailureReported, BecameIdle, Unhealthy, Elapsed,
    ),
}  # fmt: skip
"""Written out, so that a new event is a decision in every state."""

TABLE: Mapping[tuple[State, type[Event]], Row] = {
    **{(state, event): row for state, rows in _ROWS.items() for event, row in rows.items()},
    **{(state, event): IGNORE for state, events in _IGNORED.items() for event in events},
}
