"""The life of one agent as a table of states × events. Pure: no asyncio, os, clock or random.

`step` is the only entrance. A row of `TABLE` names the function that acts and the states that it may lead to; the
diagram in the documentation is generated from the rows, and a test shows that none is missing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pallas_registry.protocol import EXIT_PERMANENT
from pallas_supervisor.backoff import backoff_seconds, budget_spent
from pallas_supervisor.states import (
    OF_GENERATION,
    After,
    Agent,
    Complained,
    CountRestart,
    DependenciesReady,
    DependencyLost,
    Desired,
    Died,
    Effect,
    Elapsed,
    Event,
    Kill,
    ObserveStart,
    Ready,
    Redefine,
    Restart,
    SetTimer,
    Spawn,
    Spawned,
    SpawnFailed,
    Start,
    State,
    Step,
    Stop,
    Sweep,
    Swept,
    Terminate,
    Unhealthy,
)
from pallas_supervisor.wording import describe_exit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

KILL_TIMEOUT = 10.0
"""Seconds that a killed process may take to disappear before it counts as one that cannot be killed."""


@dataclass(frozen=True, slots=True)
class Moment:
    """When an event is handled, and the random number drawn for it."""

    now: float
    draw: float


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
    return TABLE[agent.state, type(event)].act(agent, event, Moment(now, draw))


# --- building blocks --------------------------------------------------------------------------------------


def _enter(agent: Agent, state: State, at: Moment, **changes: Any) -> Agent:
    return replace(agent, **{"state": state, "epoch": agent.epoch + 1, "since": at.now, **changes})


def _timed(agent: Agent, seconds: float, *effects: Effect) -> Step:
    return Step(agent, (*effects, SetTimer(agent.epoch, seconds)))


def _wait(agent: Agent, at: Moment) -> Step:
    return Step(_enter(agent, State.WAITING, at, retry_at=None, message=""))


def _stop_process(agent: Agent, at: Moment, **changes: Any) -> Step:
    agent = _enter(agent, State.STOPPING, at, **changes)
    return _timed(agent, agent.policy.stop_timeout, Terminate(agent.generation))


def _fail(agent: Agent, at: Moment, message: str, **changes: Any) -> Step:
    return Step(_enter(agent, State.FAILED, at, message=message, retry_at=None, **changes))


def _crash(agent: Agent, at: Moment, why: str, *, permanent: bool) -> Step:
    """The process is gone and nobody asked for that: the restart policy decides."""
    clean = agent.after is After.EXIT and agent.last_exit is not None and agent.last_exit.status == 0
    policy = agent.policy
    if policy.restart != "always" and clean and not permanent:
        return Step(_enter(agent, State.STOPPED, at, desired=Desired.DOWN, message=why))
    failures = agent.failures + 1
    agent = replace(agent, failures=failures)
    if permanent or policy.restart == "never":
        return _fail(agent, at, why)
    if budget_spent(failures, policy.max_failures):
        return _fail(agent, at, f"{failures} failures in a row; the last: {why}")
    delay = backoff_seconds(failures, at.draw, was_ready=agent.was_ready)
    agent = _enter(agent, State.BACKOFF, at, message=why, cause=agent.cause or "crash")
    return _timed(replace(agent, retry_at=at.now + delay), delay)


# --- actions, named for what happened ---------------------------------------------------------------------


def _ignore(agent: Agent, _event: Event, _at: Moment) -> Step:
    return Step(agent)


def _start_resting(agent: Agent, _event: Event, at: Moment) -> Step:
    fresh = replace(agent, desired=Desired.UP, failures=0, cause=None)
    if agent.live:  # FAILED because it could not be killed: never two of them
        fresh = _enter(fresh, State.KILLING, at, after=After.RESTART)
        return _timed(fresh, KILL_TIMEOUT, Kill(fresh.generation))
    return _wait(fresh, at)


def _start_now(agent: Agent, _event: Event, at: Moment) -> Step:
    return _wait(replace(agent, desired=Desired.UP, failures=0), at)


def _try_again(agent: Agent, _event: Event, at: Moment) -> Step:
    return _wait(agent, at)


def _want_up(agent: Agent, _event: Event, _at: Moment) -> Step:
    return Step(replace(agent, desired=Desired.UP))


def _want_up_again(agent: Agent, _event: Event, _at: Moment) -> Step:
    if agent.desired is Desired.UP:
        return Step(agent)
    return Step(replace(agent, desired=Desired.UP, after=After.RESTART, cause="operator", failures=0))


def _restart_again(agent: Agent, _event: Event, _at: Moment) -> Step:
    return Step(replace(agent, desired=Desired.UP, after=After.RESTART, cause="operator", failures=0))


def _want_down(agent: Agent, _event: Event, _at: Moment) -> Step:
    return Step(replace(agent, desired=Desired.DOWN))


def _stop_without_process(agent: Agent, _event: Event, at: Moment) -> Step:
    if agent.live:
        agent = _enter(replace(agent, desired=Desired.DOWN), State.KILLING, at)
        return _timed(agent, KILL_TIMEOUT, Kill(agent.generation))
    stopped = _enter(agent, State.STOPPED, at, desired=Desired.DOWN, message="", retry_at=None, cause=None)
    return Step(stopped)


def _stop_running(agent: Agent, _event: Event, at: Moment) -> Step:
    return _stop_process(agent, at, desired=Desired.DOWN, after=After.RESTART, message="")


def _restart_running(agent: Agent, _event: Event, at: Moment) -> Step:
    changes = {
        "desired": Desired.UP,
        "after": After.RESTART,
        "cause": "operator",
        "message": "",
        "failures": 0,
    }
    return _stop_process(agent, at, **changes)


def _lose_dependency(agent: Agent, event: DependencyLost, at: Moment) -> Step:
    if agent.policy.on_dependency_loss == "keep":
        return Step(agent)
    message = f"restarting because {event.name} is not ready"
    return _stop_process(agent, at, after=After.RESTART, cause="dependency", message=message)


def _spawn(agent: Agent, _event: Event, at: Moment) -> Step:
    restarting = agent.cause is not None
    started = _enter(
        agent,
        State.STARTING,
        at,
        generation=agent.generation + 1,
        live=True,
        was_ready=False,
        restarts=agent.restarts + restarting,
        cause=None,
        after=After.EXIT,
        message="",
    )
    counted = (CountRestart(agent.cause),) if agent.cause is not None else ()
    return _timed(started, started.policy.start_timeout, *counted, Spawn(started.generation))


def _learn_pid(agent: Agent, event: Spawned, _at: Moment) -> Step:
    return Step(replace(agent, pid=event.pid))


def _terminate_late(agent: Agent, event: Spawned, _at: Moment) -> Step:
    return Step(replace(agent, pid=event.pid), (Terminate(agent.generation),))


def _kill_late(agent: Agent, event: Spawned, _at: Moment) -> Step:
    return Step(replace(agent, pid=event.pid), (Kill(agent.generation),))


def _spawn_failed(agent: Agent, event: SpawnFailed, at: Moment) -> Step:
    agent = replace(agent, pid=None, live=False)
    if agent.desired is Desired.DOWN:
        return Step(_enter(agent, State.STOPPED, at, message="", cause=None))
    if agent.after is After.RESTART:
        return _wait(agent, at)
    return _crash(replace(agent, last_exit=None), at, event.message, permanent=event.permanent)


def _become_ready(agent: Agent, _event: Event, at: Moment) -> Step:
    ready = _enter(agent, State.READY, at, message="", was_ready=True)
    return _timed(ready, ready.policy.reset_after, ObserveStart(at.now - agent.since))


def _note(agent: Agent, event: Complained, _at: Moment) -> Step:
    return Step(replace(agent, message=event.message))


def _start_timed_out(agent: Agent, _event: Event, at: Moment) -> Step:
    message = f"not ready within {agent.policy.start_timeout:g} s"
    return _stop_process(agent, at, after=After.FAILURE, cause="start_timeout", message=message)


def _become_stable(agent: Agent, _event: Event, _at: Moment) -> Step:
    return Step(replace(agent, failures=0))


def _become_unhealthy(agent: Agent, event: Unhealthy, at: Moment) -> Step:
    return _stop_process(agent, at, after=After.FAILURE, cause="unhealthy", message=event.message)


def _die(agent: Agent, event: Died, at: Moment) -> Step:
    agent = _enter(agent, State.KILLING, at, last_exit=event.exit)
    return _timed(agent, KILL_TIMEOUT, Sweep(agent.generation))


def _die_unasked(agent: Agent, event: Died, at: Moment) -> Step:
    return _die(
        replace(agent, after=After.EXIT, message=agent.message or describe_exit(event.exit)), event, at
    )


def _die_killed(agent: Agent, event: Died, _at: Moment) -> Step:
    return Step(replace(agent, last_exit=event.exit), (Sweep(agent.generation),))


def _stop_timed_out(agent: Agent, _event: Event, at: Moment) -> Step:
    agent = _enter(agent, State.KILLING, at)
    return _timed(agent, KILL_TIMEOUT, Kill(agent.generation))


def _kill_timed_out(agent: Agent, _event: Event, at: Moment) -> Step:
    who = f"process {agent.pid}" if agent.pid is not None else "the process that was being started"
    return _fail(agent, at, f"cannot be killed: {who} is still there {KILL_TIMEOUT:g} s after SIGKILL")


def _settle(agent: Agent, _event: Event, at: Moment) -> Step:
    """Nothing is left of the process: go where the operator, the purpose or the policy says."""
    agent = replace(agent, pid=None, live=False)
    if agent.desired is Desired.DOWN:
        return Step(_enter(agent, State.STOPPED, at, message="", cause=None))
    if agent.after is After.RESTART:
        return _wait(agent, at)
    permanent = agent.last_exit is not None and agent.last_exit.status == EXIT_PERMANENT
    return _crash(agent, at, agent.message, permanent=permanent)


def _vanish_late(agent: Agent, _event: Event, _at: Moment) -> Step:
    return Step(replace(agent, pid=None, live=False))


def _redefine(agent: Agent, event: Redefine, _at: Moment) -> Step:
    return Step(replace(agent, policy=event.policy))


def _redefine_failed(agent: Agent, event: Redefine, at: Moment) -> Step:
    agent = replace(agent, policy=event.policy)
    return _start_resting(agent, event, at) if agent.desired is Desired.UP else Step(agent)


def _redefine_waiting_out(agent: Agent, event: Redefine, at: Moment) -> Step:
    return _start_now(replace(agent, policy=event.policy), event, at)


def _redefine_running(agent: Agent, event: Redefine, at: Moment) -> Step:
    agent = replace(agent, policy=event.policy)
    if not event.respawn:
        return Step(agent)
    changes = {"after": After.RESTART, "cause": "reload", "message": "", "failures": 0}
    return _stop_process(agent, at, **changes)


def _redefine_ending(agent: Agent, event: Redefine, _at: Moment) -> Step:
    agent = replace(agent, policy=event.policy)
    return Step(replace(agent, after=After.RESTART, cause="reload", failures=0) if event.respawn else agent)


# --- the table --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Row:
    """What is done, and the states to which it may lead beside the present one."""

    act: Callable[[Agent, Any, Moment], Step]
    to: tuple[State, ...] = ()


_IGNORE = Row(_ignore)
_AFTER_PROCESS = (State.STOPPED, State.WAITING, State.BACKOFF, State.FAILED)

_ROWS: Mapping[State, Mapping[type[Event], Row]] = {
    State.STOPPED: {
        Start: Row(_start_resting, (State.WAITING,)),
        Restart: Row(_start_resting, (State.WAITING,)),
        Stop: _IGNORE,
        Redefine: Row(_redefine),
    },
    State.WAITING: {
        Start: Row(_want_up),
        Restart: Row(_want_up),
        Stop: Row(_stop_without_process, (State.STOPPED,)),
        Redefine: Row(_redefine),
        DependenciesReady: Row(_spawn, (State.STARTING,)),
    },
    State.STARTING: {
        Start: Row(_want_up),
        Restart: Row(_restart_running, (State.STOPPING,)),
        Stop: Row(_stop_running, (State.STOPPING,)),
        Redefine: Row(_redefine_running, (State.STOPPING,)),
        DependencyLost: Row(_lose_dependency, (State.STOPPING,)),
        Spawned: Row(_learn_pid),
        SpawnFailed: Row(_spawn_failed, (State.BACKOFF, State.FAILED)),
        Ready: Row(_become_ready, (State.READY,)),
        Complained: Row(_note),
        Died: Row(_die_unasked, (State.KILLING,)),
        Elapsed: Row(_start_timed_out, (State.STOPPING,)),
    },
    State.READY: {
        Start: Row(_want_up),
        Restart: Row(_restart_running, (State.STOPPING,)),
        Stop: Row(_stop_running, (State.STOPPING,)),
        Redefine: Row(_redefine_running, (State.STOPPING,)),
        DependencyLost: Row(_lose_dependency, (State.STOPPING,)),
        Complained: Row(_note),
        Unhealthy: Row(_become_unhealthy, (State.STOPPING,)),
        Died: Row(_die_unasked, (State.KILLING,)),
        Elapsed: Row(_become_stable),
    },
    State.STOPPING: {
        Start: Row(_want_up_again),
        Restart: Row(_restart_again),
        Stop: Row(_want_down),
        Redefine: Row(_redefine_ending),
        Spawned: Row(_terminate_late),
        SpawnFailed: Row(_spawn_failed, _AFTER_PROCESS),
        Died: Row(_die, (State.KILLING,)),
        Elapsed: Row(_stop_timed_out, (State.KILLING,)),
    },
    State.KILLING: {
        Start: Row(_want_up_again),
        Restart: Row(_restart_again),
        Stop: Row(_want_down),
        Redefine: Row(_redefine_ending),
        Spawned: Row(_kill_late),
        SpawnFailed: Row(_spawn_failed, _AFTER_PROCESS),
        Died: Row(_die_killed),
        Swept: Row(_settle, _AFTER_PROCESS),
        Elapsed: Row(_kill_timed_out, (State.FAILED,)),
    },
    State.BACKOFF: {
        Start: Row(_start_now, (State.WAITING,)),
        Restart: Row(_start_now, (State.WAITING,)),
        Stop: Row(_stop_without_process, (State.STOPPED,)),
        Redefine: Row(_redefine_waiting_out, (State.WAITING,)),
        Elapsed: Row(_try_again, (State.WAITING,)),
    },
    State.FAILED: {
        Start: Row(_start_resting, (State.WAITING, State.KILLING)),
        Restart: Row(_start_resting, (State.WAITING, State.KILLING)),
        Stop: Row(_stop_without_process, (State.STOPPED, State.KILLING)),
        Redefine: Row(_redefine_failed, (State.WAITING, State.KILLING)),
        Spawned: Row(_kill_late),
        Died: Row(_die_killed),
        Swept: Row(_vanish_late),
        SpawnFailed: Row(_vanish_late),
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
    **{(state, event): _IGNORE for state, events in _IGNORED.items() for event in events},
}
