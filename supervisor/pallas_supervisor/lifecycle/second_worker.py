"""The second process of an agent, as a table of companion states × events: the new worker of a graceful replacement
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
    ReplacementFailed,
    SetCompanionTimer,
    SetTimer,
    Spawn,
    Step,
    Sweep,
    Terminate,
)
from pallas_supervisor.lifecycle.events import (
    CompanionElapsed,
    Complained,
    Died,
    Event,
    Ready,
    Spawned,
    SpawnFailed,
    Swept,
    Unhealthy,
)
from pallas_supervisor.lifecycle.exits import describe_exit
from pallas_supervisor.lifecycle.states import Agent, Companion, CompanionState

KILL_TIMEOUT = 10.0
"""Seconds that a killed process may take to disappear before it counts as one that cannot be killed."""

SPAWN_TIMEOUT = 180.0
"""Seconds in which a process has to exist: more than a zygote that has to be made twice may take."""


# --- building blocks, also for the main machine -------------------------------------------------------------


def begin(agent: Agent, now: float) -> Step:
    """Start the new worker beside the old one."""
    generation = agent.newest + 1
    companion = Companion(
        generation=generation, state=CompanionState.STARTING, since=now, cause=agent.replace or "operator"
    )
    agent = replace(agent, newest=generation, replace=None, message="", companion=companion)
    timer = SetCompanionTimer(generation, CompanionState.STARTING, SPAWN_TIMEOUT)
    return Step(agent, (Spawn(generation), timer))


def abandon(agent: Agent, now: float) -> Step:
    """Nothing is to be replaced any more: a new worker that is still starting is killed."""
    agent = replace(agent, replace=None)
    if agent.companion is None or not agent.is_replacing:
        return Step(agent)
    return _kill(agent, agent.companion, now)


def promote(agent: Agent, now: float, ending: Effect) -> Step:
    """The serving worker is gone or useless: the new one, still starting, becomes the one that counts.

    Args:
        ending: what is done about the old process, its sweep or its end.
    """
    new = agent.companion
    assert new is not None
    assert new.state is CompanionState.STARTING
    old = Companion(generation=agent.generation, state=CompanionState.KILLING, since=now, pid=agent.pid)
    timer = SetCompanionTimer(old.generation, old.state, KILL_TIMEOUT)
    agent = replace(agent, generation=new.generation, pid=new.pid, was_ready=False, companion=old)
    return Step(replace(agent, restarts=agent.restarts + 1), (CountRestart(new.cause), ending, timer))


def _become(agent: Agent, companion: Companion, state: CompanionState, now: float) -> Agent:
    return replace(agent, companion=replace(companion, state=state, since=now))


def _kill(agent: Agent, companion: Companion, now: float, *effects: Effect) -> Step:
    agent = _become(agent, companion, CompanionState.KILLING, now)
    timer = SetCompanionTimer(companion.generation, CompanionState.KILLING, KILL_TIMEOUT)
    return Step(agent, (Kill(companion.generation), timer, *effects))


def _failed(agent: Agent, companion: Companion, why: str) -> tuple[Agent, ReplacementFailed]:
    message = f"could not be replaced, the old worker goes on: {why}"
    return replace(agent, message=message), ReplacementFailed(companion.cause, why)


# --- actions, named for what happened to the companion -----------------------------------------------------


def ignore(agent: Agent, _companion: Companion, _event: Event, _now: float) -> Step:
    return Step(agent)


def learn_pid(agent: Agent, companion: Companion, event: Spawned, _now: float) -> Step:
    timer = SetCompanionTimer(companion.generation, companion.state, agent.policy.start_timeout)
    return Step(replace(agent, companion=replace(companion, pid=event.pid)), (timer,))


def kill_late(agent: Agent, companion: Companion, event: Spawned, _now: float) -> Step:
    return Step(replace(agent, companion=replace(companion, pid=event.pid)), (Kill(companion.generation),))


def note(agent: Agent, companion: Companion, event: Complained, _now: float) -> Step:
    return Step(replace(agent, message=event.message))


def take_over(agent: Agent, companion: Companion, _event: Ready, now: float) -> Step:
    """The new worker serves; the old one is told to drain."""
    old = Companion(generation=agent.generation, state=CompanionState.DRAINING, since=now, pid=agent.pid)
    agent = replace(
        agent,
        epoch=agent.epoch + 1,
        since=now,
        generation=companion.generation,
        pid=companion.pid,
        restarts=agent.restarts + 1,
        failures=0,
        message="",
        companion=old,
    )
    effects = (
        CountRestart(companion.cause),
        ObserveStart(now - companion.since),
        Terminate(old.generation),
        SetCompanionTimer(old.generation, old.state, agent.policy.stop_timeout),
        SetTimer(agent.epoch, agent.policy.reset_after),
    )
    return Step(agent, effects)


def fail_to_spawn(agent: Agent, companion: Companion, event: SpawnFailed, _now: float) -> Step:
    agent, failure = _failed(agent, companion, event.message)
    return Step(replace(agent, companion=None), (failure,))


def fail_in_time(agent: Agent, companion: Companion, _event: CompanionElapsed, now: float) -> Step:
    allowed = SPAWN_TIMEOUT if companion.pid is None else agent.policy.start_timeout
    agent, failure = _failed(agent, companion, f"not ready within {allowed:g} s")
    return _kill(agent, companion, now, failure)


def die_starting(agent: Agent, companion: Companion, event: Died, now: float) -> Step:
    agent, failure = _failed(agent, companion, agent.message or describe_exit(event.exit))
    return die(agent, companion, event, now, failure)


def die(agent: Agent, companion: Companion, _event: Died, now: float, *effects: Effect) -> Step:
    agent = _become(agent, companion, CompanionState.KILLING, now)
    timer = SetCompanionTimer(companion.generation, CompanionState.KILLING, KILL_TIMEOUT)
    return Step(agent, (Sweep(companion.generation), timer, *effects))


def die_killed(agent: Agent, companion: Companion, _event: Died, _now: float) -> Step:
    return Step(agent, (Sweep(companion.generation),))


def drain_timed_out(agent: Agent, companion: Companion, _event: CompanionElapsed, now: float) -> Step:
    return _kill(agent, companion, now)


def kill_timed_out(agent: Agent, companion: Companion, _event: CompanionElapsed, now: float) -> Step:
    """There cannot be a third process: a replacement that was due is not any more."""
    return Step(replace(_become(agent, companion, CompanionState.STUCK, now), replace=None))


def vanish(agent: Agent, _companion: Companion, _event: Swept | SpawnFailed, _now: float) -> Step:
    return Step(replace(agent, companion=None))


Act = Callable[[Agent, Companion, Any, float], Step]

_STARTING, _DRAINING, _KILLING, _STUCK = CompanionState

TABLE: Mapping[tuple[CompanionState, type[Event]], Act] = {
    (_STARTING, Spawned): learn_pid,
    (_STARTING, SpawnFailed): fail_to_spawn,
    (_STARTING, Ready): take_over,
    (_STARTING, Complained): note,
    (_STARTING, Unhealthy): ignore,
    (_STARTING, Died): die_starting,
    (_STARTING, Swept): ignore,
    (_STARTING, CompanionElapsed): fail_in_time,
    (_DRAINING, Spawned): ignore,
    (_DRAINING, SpawnFailed): ignore,
    (_DRAINING, Ready): ignore,
    (_DRAINING, Complained): ignore,
    (_DRAINING, Unhealthy): ignore,
    (_DRAINING, Died): die,
    (_DRAINING, Swept): ignore,
    (_DRAINING, CompanionElapsed): drain_timed_out,
    (_KILLING, Spawned): kill_late,
    (_KILLING, SpawnFailed): vanish,
    (_KILLING, Ready): ignore,
    (_KILLING, Complained): ignore,
    (_KILLING, Unhealthy): ignore,
    (_KILLING, Died): die_killed,
    (_KILLING, Swept): vanish,
    (_KILLING, CompanionElapsed): kill_timed_out,
    (_STUCK, Spawned): kill_late,
    (_STUCK, SpawnFailed): vanish,
    (_STUCK, Ready): ignore,
    (_STUCK, Complained): ignore,
    (_STUCK, Unhealthy): ignore,
    (_STUCK, Died): die_killed,
    (_STUCK, Swept): vanish,
    (_STUCK, CompanionElapsed): ignore,
}


def step_companion(agent: Agent, companion: Companion, event: Event, now: float) -> Step:
    """The agent after an event of its companion's, and what is to be done."""
    return TABLE[companion.state, type(event)](agent, companion, event, now)
