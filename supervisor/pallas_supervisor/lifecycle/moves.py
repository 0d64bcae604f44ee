"""Where an agent goes: the steps that the actions of the machine's table are made of. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pallas_supervisor.lifecycle import second_worker as replacement
from pallas_supervisor.lifecycle.backoff import backoff_seconds, budget_spent
from pallas_supervisor.lifecycle.effects import Effect, Kill, SetTimer, Step, Terminate
from pallas_supervisor.lifecycle.second_worker import KILL_TIMEOUT, SPAWN_TIMEOUT
from pallas_supervisor.lifecycle.states import OUT_OF_MEMORY, After, Agent, Desired, SecondWorkerState, State


@dataclass(frozen=True, slots=True)
class Moment:
    """When an event is handled, and the random number drawn for it."""

    now: float
    draw: float


def enter(agent: Agent, state: State, at: Moment, **changes: Any) -> Agent:
    entered = {"state": state, "timer_epoch": agent.timer_epoch + 1, "since": at.now, "replace": None}
    return replace(agent, **{**entered, **changes})


def timed(agent: Agent, seconds: float, *effects: Effect) -> Step:
    return Step(agent, (*effects, SetTimer(agent.timer_epoch, seconds)))


def wait(agent: Agent, at: Moment, **changes: Any) -> Step:
    return Step(enter(agent, State.WAITING, at, **{"retry_at": None, "message": "", **changes}))


def resume(agent: Agent, at: Moment, **changes: Any) -> Step:
    """Be up again: idle, if the agent starts on demand and the operator does not ask for a worker."""
    if not agent.policy.on_demand or agent.warm:
        return wait(agent, at, **changes)
    return Step(enter(agent, State.IDLE, at, retry_at=None, message="", **changes))


def be_up(agent: Agent, at: Moment) -> Step:
    """Be up after rest."""
    fresh = {"desired": Desired.UP, "failures": 0, "cause": None}
    if not agent.live:
        return resume(agent, at, **fresh)
    # FAILED because it could not be killed: never two of them
    agent = enter(agent, State.KILLING, at, after=after_end(agent), **fresh)
    return timed(agent, KILL_TIMEOUT, Kill(agent.generation))


def after_end(agent: Agent) -> After:
    return After.IDLE if agent.policy.on_demand and not agent.warm else After.RESTART


def stop_process(agent: Agent, at: Moment, **changes: Any) -> Step:
    agent, abandoning = taken(replacement.abandon(agent, at.now))
    agent = enter(agent, State.STOPPING, at, **changes)
    return timed(agent, agent.policy.stop_timeout, *abandoning, Terminate(agent.generation))


def restart(agent: Agent, at: Moment, cause: str) -> Step:
    """End the process in order to start another one; an agent with a process that is not ending is wanted up."""
    return stop_process(agent, at, after=After.RESTART, cause=cause, message="", failures=0)


def taken(step: Step) -> tuple[Agent, tuple[Effect, ...]]:
    return step.agent, step.effects


def promote(agent: Agent, at: Moment, ending: Effect) -> Step:
    """The replacement under way goes on, though what it was to replace does not serve any more."""
    agent, effects = taken(replacement.promote(agent, at.now, ending))
    agent = enter(agent, State.STARTING, at, failures=agent.failures + 1, after=After.EXIT, message="")
    return timed(agent, SPAWN_TIMEOUT if agent.pid is None else agent.policy.start_timeout, *effects)


def fail(agent: Agent, at: Moment, message: str, **changes: Any) -> Step:
    return Step(enter(agent, State.FAILED, at, message=message, retry_at=None, **changes))


def rest(agent: Agent, at: Moment, message: str = "") -> Step:
    """Stopped, but only once the second worker is gone as well: an old worker may still drain."""
    if (second_worker := agent.second_worker) is None:
        return Step(enter(agent, State.STOPPED, at, message=message, retry_at=None, cause=None))
    if second_worker.state is SecondWorkerState.STUCK:
        if agent.state is State.FAILED:
            return Step(agent)
        return fail(agent, at, f"cannot be killed: process {second_worker.pid}, which had been replaced")
    if agent.state is State.KILLING:
        return Step(agent)
    return timed(enter(agent, State.KILLING, at, message=message, retry_at=None), KILL_TIMEOUT)


def crash(agent: Agent, at: Moment, why: str, *, permanent: bool) -> Step:
    """The process has ended without being asked to: the restart policy decides."""
    clean = agent.after is After.EXIT and agent.last_exit is not None and agent.last_exit.status == 0
    policy = agent.policy
    clean = clean and not permanent
    if policy.restart != "always" and clean and not policy.on_demand:
        return rest(replace(agent, desired=Desired.DOWN), at, why)
    # One that starts on demand rests where the next connection finds it. It may wait already: what ends cleanly without
    # serving it must spend the budget as well.
    failures = agent.failures + 1
    agent = replace(agent, failures=failures)
    if permanent or (policy.restart == "never" and not clean):
        return fail(agent, at, why)
    if budget_spent(failures, policy.max_failures):
        return fail(agent, at, why if failures == 1 else f"{failures} failures in a row; the last: {why}")
    delay = backoff_seconds(failures, at.draw, was_ready=agent.was_ready)
    starved = agent.last_exit is not None and agent.last_exit.reason == OUT_OF_MEMORY
    cause = agent.cause or ("oom" if starved else "crash")
    agent = enter(agent, State.BACKOFF, at, message=why, cause=cause)
    return timed(replace(agent, retry_at=at.now + delay), delay)
