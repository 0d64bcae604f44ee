"""The second process of an agent, as a table of second worker states × events: the new worker of a graceful replacement
until it is ready, the old one from then on. Pure.

The main machine owns the agent's state; what is here changes it in one place only: `take_over`, when the new worker is
ready. Everything else is about a process beside one that serves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pallas_supervisor.lifecycle.effects import (
    CountRestart,
    Effect,
    Kill,
    ObserveStart,
    Reap,
    ReplacementFailed,
    SetSecondWorkerTimer,
    SetTimer,
    Spawn,
    Step,
    Terminate,
)
from pallas_supervisor.lifecycle.events import (
    BecameIdle,
    Died,
    Event,
    KillNow,
    Ready,
    Reaped,
    SecondWorkerElapsed,
    Spawned,
    SpawnFailed,
    StartFailureReported,
    Unhealthy,
)
from pallas_supervisor.lifecycle.exits import describe_exit
from pallas_supervisor.lifecycle.states import Agent, SecondWorker, SecondWorkerState

KILL_TIMEOUT = 10.0
"""Seconds that a killed process may take to disappear before it counts as one that cannot be killed."""

SPAWN_TIMEOUT = 180.0
"""Seconds in which a process has to exist: more than a zygote that has to be made twice may take."""


# --- building blocks, also for the main machine -------------------------------------------------------------


def begin(agent: Agent, now: float) -> Step:
    """Start the new worker beside the old one."""
    generation = agent.last_generation + 1
    second_worker = SecondWorker(
        generation=generation, state=SecondWorkerState.STARTING, since=now, cause=agent.replace or "operator"
    )
    agent = replace(agent, last_generation=generation, replace=None, message="", second_worker=second_worker)
    timer = SetSecondWorkerTimer(generation, SecondWorkerState.STARTING, SPAWN_TIMEOUT)
    return Step(agent, (Spawn(generation), timer))


def abandon(agent: Agent, now: float) -> Step:
    """Nothing is to be replaced any more: a new worker that is still starting is killed."""
    agent = replace(agent, replace=None)
    if agent.second_worker is None or not agent.is_replacing:
        return Step(agent)
    return _kill(agent, agent.second_worker, now)


def promote(agent: Agent, now: float, ending: Effect) -> Step:
    """The serving worker is gone or useless: the new one, still starting, becomes the agent's worker.

    Args:
        ending: what is done about the old process: `Reap` or `Kill`.
    """
    new = agent.second_worker
    assert new is not None
    assert new.state is SecondWorkerState.STARTING
    old = SecondWorker(generation=agent.generation, state=SecondWorkerState.KILLING, since=now, pid=agent.pid)
    timer = SetSecondWorkerTimer(old.generation, old.state, KILL_TIMEOUT)
    agent = replace(agent, generation=new.generation, pid=new.pid, was_ready=False, second_worker=old)
    return Step(replace(agent, restarts=agent.restarts + 1), (CountRestart(new.cause), ending, timer))


def _become(agent: Agent, second_worker: SecondWorker, state: SecondWorkerState, now: float) -> Agent:
    return replace(agent, second_worker=replace(second_worker, state=state, since=now))


def _kill(agent: Agent, second_worker: SecondWorker, now: float, *effects: Effect) -> Step:
    agent = _become(agent, second_worker, SecondWorkerState.KILLING, now)
    timer = SetSecondWorkerTimer(second_worker.generation, SecondWorkerState.KILLING, KILL_TIMEOUT)
    return Step(agent, (Kill(second_worker.generation), timer, *effects))


def _failed(agent: Agent, second_worker: SecondWorker, why: str) -> tuple[Agent, ReplacementFailed]:
    message = f"could not be replaced, the old worker goes on: {why}"
    return replace(agent, message=message), ReplacementFailed(second_worker.cause, why)


# --- actions, named for what happened to the second worker -----------------------------------------------------


def ignore(agent: Agent, _second_worker: SecondWorker, _event: Event, _now: float) -> Step:
    return Step(agent)


def learn_pid(agent: Agent, second_worker: SecondWorker, event: Spawned, _now: float) -> Step:
    timer = SetSecondWorkerTimer(second_worker.generation, second_worker.state, agent.policy.start_timeout)
    return Step(replace(agent, second_worker=replace(second_worker, pid=event.pid)), (timer,))


def kill_late(agent: Agent, second_worker: SecondWorker, event: Spawned, _now: float) -> Step:
    return Step(
        replace(agent, second_worker=replace(second_worker, pid=event.pid)), (Kill(second_worker.generation),)
    )


def kill_now(agent: Agent, second_worker: SecondWorker, event: KillNow, _now: float) -> Step:
    return Step(agent, (Kill(second_worker.generation, event.reason),))


def note(agent: Agent, second_worker: SecondWorker, event: StartFailureReported, _now: float) -> Step:
    return Step(replace(agent, message=event.message))


def take_over(agent: Agent, second_worker: SecondWorker, _event: Ready, now: float) -> Step:
    """The new worker serves; the old one is asked to drain."""
    old = SecondWorker(
        generation=agent.generation, state=SecondWorkerState.DRAINING, since=now, pid=agent.pid
    )
    agent = replace(
        agent,
        timer_epoch=agent.timer_epoch + 1,
        since=now,
        generation=second_worker.generation,
        pid=second_worker.pid,
        restarts=agent.restarts + 1,
        failures=0,
        message="",
        second_worker=old,
    )
    effects = (
        CountRestart(second_worker.cause),
        ObserveStart(now - second_worker.since),
        Terminate(old.generation),
        SetSecondWorkerTimer(old.generation, old.state, agent.policy.stop_timeout),
        SetTimer(agent.timer_epoch, agent.policy.reset_after),
    )
    return Step(agent, effects)


def fail_to_spawn(agent: Agent, second_worker: SecondWorker, event: SpawnFailed, _now: float) -> Step:
    agent, failure = _failed(agent, second_worker, event.message)
    return Step(replace(agent, second_worker=None), (failure,))


def fail_in_time(agent: Agent, second_worker: SecondWorker, _event: SecondWorkerElapsed, now: float) -> Step:
    allowed = SPAWN_TIMEOUT if second_worker.pid is None else agent.policy.start_timeout
    agent, failure = _failed(agent, second_worker, f"not ready within {allowed:g} s")
    return _kill(agent, second_worker, now, failure)


def die_starting(agent: Agent, second_worker: SecondWorker, event: Died, now: float) -> Step:
    agent, failure = _failed(agent, second_worker, agent.message or describe_exit(event.exit))
    return die(agent, second_worker, event, now, failure)


def die(agent: Agent, second_worker: SecondWorker, _event: Died, now: float, *effects: Effect) -> Step:
    agent = _become(agent, second_worker, SecondWorkerState.KILLING, now)
    timer = SetSecondWorkerTimer(second_worker.generation, SecondWorkerState.KILLING, KILL_TIMEOUT)
    return Step(agent, (Reap(second_worker.generation), timer, *effects))


def die_killed(agent: Agent, second_worker: SecondWorker, _event: Died, _now: float) -> Step:
    return Step(agent, (Reap(second_worker.generation),))


def drain_timed_out(
    agent: Agent, second_worker: SecondWorker, _event: SecondWorkerElapsed, now: float
) -> Step:
    return _kill(agent, second_worker, now)


def kill_timed_out(
    agent: Agent, second_worker: SecondWorker, _event: SecondWorkerElapsed, now: float
) -> Step:
    """There cannot be a third process: a replacement that was due is not any more."""
    return Step(replace(_become(agent, second_worker, SecondWorkerState.STUCK, now), replace=None))


def vanish(agent: Agent, _second_worker: SecondWorker, _event: Reaped | SpawnFailed, _now: float) -> Step:
    return Step(replace(agent, second_worker=None))


Act = Callable[[Agent, SecondWorker, Any, float], Step]

_STARTING, _DRAINING, _KILLING, _STUCK = SecondWorkerState

TABLE: Mapping[tuple[SecondWorkerState, type[Event]], Act] = {
    (_STARTING, Spawned): learn_pid,
    (_STARTING, SpawnFailed): fail_to_spawn,
    (_STARTING, Ready): take_over,
    (_STARTING, StartFailureReported): note,
    (_STARTING, BecameIdle): ignore,
    (_STARTING, Unhealthy): ignore,
    (_STARTING, KillNow): kill_now,
    (_STARTING, Died): die_starting,
    (_STARTING, Reaped): ignore,
    (_STARTING, SecondWorkerElapsed): fail_in_time,
    (_DRAINING, Spawned): ignore,
    (_DRAINING, SpawnFailed): ignore,
    (_DRAINING, Ready): ignore,
    (_DRAINING, StartFailureReported): ignore,
    (_DRAINING, BecameIdle): ignore,
    (_DRAINING, Unhealthy): ignore,
    (_DRAINING, KillNow): kill_now,
    (_DRAINING, Died): die,
    (_DRAINING, Reaped): ignore,
    (_DRAINING, SecondWorkerElapsed): drain_timed_out,
    (_KILLING, Spawned): kill_late,
    (_KILLING, SpawnFailed): vanish,
    (_KILLING, Ready): ignore,
    (_KILLING, StartFailureReported): ignore,
    (_KILLING, BecameIdle): ignore,
    (_KILLING, Unhealthy): ignore,
    (_KILLING, KillNow): kill_now,
    (_KILLING, Died): die_killed,
    (_KILLING, Reaped): vanish,
    (_KILLING, SecondWorkerElapsed): kill_timed_out,
    (_STUCK, Spawned): kill_late,
    (_STUCK, SpawnFailed): vanish,
    (_STUCK, Ready): ignore,
    (_STUCK, StartFailureReported): ignore,
    (_STUCK, BecameIdle): ignore,
    (_STUCK, Unhealthy): ignore,
    (_STUCK, KillNow): kill_now,
    (_STUCK, Died): die_killed,
    (_STUCK, Reaped): vanish,
    (_STUCK, SecondWorkerElapsed): ignore,
}


def step_second_worker(agent: Agent, second_worker: SecondWorker, event: Event, now: float) -> Step:
    """The agent after an event of its second worker's, and what is to be done."""
    return TABLE[second_worker.state, type(event)](agent, second_worker, event, now)
