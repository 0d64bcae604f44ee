"""What each event does to an agent: one small pure function for each row of the machine's table.

Named for what happened. Each takes the agent, the event and the moment, and returns the agent after it and the effects.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pallas_common.protocol.spec import EXIT_PERMANENT
from pallas_supervisor.lifecycle import second_worker as replacement
from pallas_supervisor.lifecycle.backoff import backoff_seconds, budget_spent
from pallas_supervisor.lifecycle.effects import (
    CountRestart,
    Effect,
    Kill,
    ObserveStart,
    Reap,
    SetTimer,
    Spawn,
    Step,
    Terminate,
)
from pallas_supervisor.lifecycle.events import (
    DependencyLost,
    Died,
    Event,
    KillNow,
    Reaped,
    Rebind,
    Redefine,
    RollingRestart,
    Spawned,
    SpawnFailed,
    StartFailureReported,
    Unhealthy,
)
from pallas_supervisor.lifecycle.exits import describe_exit
from pallas_supervisor.lifecycle.second_worker import KILL_TIMEOUT, SPAWN_TIMEOUT
from pallas_supervisor.lifecycle.states import OUT_OF_MEMORY, After, Agent, Desired, SecondWorkerState, State

START_TIMEOUT = "start_timeout"
"""The cause of an end that came because a worker was not ready in time."""


@dataclass(frozen=True, slots=True)
class Moment:
    """When an event is handled, and the random number drawn for it."""

    now: float
    draw: float


# --- building blocks --------------------------------------------------------------------------------------


def _enter(agent: Agent, state: State, at: Moment, **changes: Any) -> Agent:
    entered = {"state": state, "timer_epoch": agent.timer_epoch + 1, "since": at.now, "replace": None}
    return replace(agent, **{**entered, **changes})


def _timed(agent: Agent, seconds: float, *effects: Effect) -> Step:
    return Step(agent, (*effects, SetTimer(agent.timer_epoch, seconds)))


def _wait(agent: Agent, at: Moment) -> Step:
    return Step(_enter(agent, State.WAITING, at, retry_at=None, message=""))


def _stop_process(agent: Agent, at: Moment, **changes: Any) -> Step:
    agent, abandoning = _taken(replacement.abandon(agent, at.now))
    agent = _enter(agent, State.STOPPING, at, **changes)
    return _timed(agent, agent.policy.stop_timeout, *abandoning, Terminate(agent.generation))


def _restart(agent: Agent, at: Moment, cause: str) -> Step:
    """End the process in order to start another one; an agent with a process that is not ending is wanted up."""
    return _stop_process(agent, at, after=After.RESTART, cause=cause, message="", failures=0)


def _taken(step: Step) -> tuple[Agent, tuple[Effect, ...]]:
    return step.agent, step.effects


def _promote(agent: Agent, at: Moment, ending: Effect) -> Step:
    """The replacement under way goes on, though what it was to replace does not serve any more."""
    agent, effects = _taken(replacement.promote(agent, at.now, ending))
    agent = _enter(agent, State.STARTING, at, failures=agent.failures + 1, after=After.EXIT, message="")
    return _timed(agent, SPAWN_TIMEOUT if agent.pid is None else agent.policy.start_timeout, *effects)


def _fail(agent: Agent, at: Moment, message: str, **changes: Any) -> Step:
    return Step(_enter(agent, State.FAILED, at, message=message, retry_at=None, **changes))


def _rest(agent: Agent, at: Moment, message: str = "") -> Step:
    """Stopped, but only once the second worker is gone as well: an old worker may still drain."""
    if (second_worker := agent.second_worker) is None:
        return Step(_enter(agent, State.STOPPED, at, message=message, retry_at=None, cause=None))
    if second_worker.state is SecondWorkerState.STUCK:
        if agent.state is State.FAILED:
            return Step(agent)
        return _fail(agent, at, f"cannot be killed: process {second_worker.pid}, which had been replaced")
    if agent.state is State.KILLING:
        return Step(agent)
    return _timed(_enter(agent, State.KILLING, at, message=message, retry_at=None), KILL_TIMEOUT)


def _crash(agent: Agent, at: Moment, why: str, *, permanent: bool) -> Step:
    """The process has ended without being asked to: the restart policy decides."""
    clean = agent.after is After.EXIT and agent.last_exit is not None and agent.last_exit.status == 0
    policy = agent.policy
    if policy.restart != "always" and clean and not permanent:
        return _rest(replace(agent, desired=Desired.DOWN), at, why)
    failures = agent.failures + 1
    agent = replace(agent, failures=failures)
    if permanent or policy.restart == "never":
        return _fail(agent, at, why)
    if budget_spent(failures, policy.max_failures):
        return _fail(agent, at, why if failures == 1 else f"{failures} failures in a row; the last: {why}")
    delay = backoff_seconds(failures, at.draw, was_ready=agent.was_ready)
    starved = agent.last_exit is not None and agent.last_exit.reason == OUT_OF_MEMORY
    cause = agent.cause or ("oom" if starved else "crash")
    agent = _enter(agent, State.BACKOFF, at, message=why, cause=cause)
    return _timed(replace(agent, retry_at=at.now + delay), delay)


# --- actions, named for what happened ---------------------------------------------------------------------


def ignore(agent: Agent, _event: Event, _at: Moment) -> Step:
    return Step(agent)


def start_resting(agent: Agent, _event: Event, at: Moment) -> Step:
    fresh = replace(agent, desired=Desired.UP, failures=0, cause=None)
    if agent.live:  # FAILED because it could not be killed: never two of them
        fresh = _enter(fresh, State.KILLING, at, after=After.RESTART)
        return _timed(fresh, KILL_TIMEOUT, Kill(fresh.generation))
    return _wait(fresh, at)


def start_now(agent: Agent, _event: Event, at: Moment) -> Step:
    return _wait(replace(agent, desired=Desired.UP, failures=0), at)


def try_again(agent: Agent, _event: Event, at: Moment) -> Step:
    return _wait(agent, at)


def want_up(agent: Agent, _event: Event, _at: Moment) -> Step:
    return Step(replace(agent, desired=Desired.UP))


def want_up_again(agent: Agent, event: Event, at: Moment) -> Step:
    return Step(agent) if agent.desired is Desired.UP else restart_again(agent, event, at)


def restart_again(agent: Agent, _event: Event, at: Moment) -> Step:
    agent = replace(agent, desired=Desired.UP, cause="operator", failures=0)
    # Without a process it only waited for its second worker, which a start does not need to be gone.
    if not agent.live:
        return _wait(agent, at)
    return Step(replace(agent, after=After.RESTART))


def want_down(agent: Agent, _event: Event, _at: Moment) -> Step:
    return Step(replace(agent, desired=Desired.DOWN))


def stop_without_process(agent: Agent, _event: Event, at: Moment) -> Step:
    if agent.live:
        agent = _enter(replace(agent, desired=Desired.DOWN), State.KILLING, at)
        return _timed(agent, KILL_TIMEOUT, Kill(agent.generation))
    return _rest(replace(agent, desired=Desired.DOWN), at)


def stop_running(agent: Agent, _event: Event, at: Moment) -> Step:
    return _stop_process(agent, at, desired=Desired.DOWN, after=After.RESTART, message="")


def restart_running(agent: Agent, _event: Event, at: Moment) -> Step:
    return _restart(agent, at, "operator")


def restart_gracefully(agent: Agent, event: RollingRestart, at: Moment) -> Step:
    if agent.is_stuck:  # there cannot be a third process
        return _restart(agent, at, event.cause)
    return Step(replace(agent, desired=Desired.UP, replace=event.cause, failures=0))


def begin_replacement(agent: Agent, _event: Event, at: Moment) -> Step:
    if agent.replace is None or agent.second_worker is not None:
        return Step(agent)
    return replacement.begin(agent, at.now)


def keep_running(agent: Agent, _event: Event, _at: Moment) -> Step:
    return Step(replace(agent, replace=None))


def lose_dependency(agent: Agent, event: DependencyLost, at: Moment) -> Step:
    if agent.policy.on_dependency_loss == "keep":
        return Step(agent)
    message = f"restarting because {event.name} is not ready"
    return _stop_process(agent, at, after=After.RESTART, cause="dependency", message=message)


def spawn(agent: Agent, _event: Event, at: Moment) -> Step:
    restarting = agent.cause is not None
    started = _enter(
        agent,
        State.STARTING,
        at,
        generation=agent.last_generation + 1,
        last_generation=agent.last_generation + 1,
        live=True,
        was_ready=False,
        restarts=agent.restarts + restarting,
        cause=None,
        after=After.EXIT,
        message="",
    )
    counted = (CountRestart(agent.cause),) if agent.cause is not None else ()
    return _timed(started, SPAWN_TIMEOUT, *counted, Spawn(started.generation))


def learn_pid(agent: Agent, event: Spawned, _at: Moment) -> Step:
    """The time to start begins: how long it took to make the process does not count."""
    return _timed(replace(agent, pid=event.pid), agent.policy.start_timeout)


def terminate_late(agent: Agent, event: Spawned, _at: Moment) -> Step:
    return Step(replace(agent, pid=event.pid), (Terminate(agent.generation),))


def kill_late(agent: Agent, event: Spawned, _at: Moment) -> Step:
    return Step(replace(agent, pid=event.pid), (Kill(agent.generation),))


def spawn_failed(agent: Agent, event: SpawnFailed, at: Moment) -> Step:
    agent = replace(agent, pid=None, live=False)
    if agent.desired is Desired.DOWN:
        return _rest(agent, at)
    if agent.after is After.RESTART:
        return _wait(agent, at)
    agent = replace(agent, last_exit=None)
    if event.exhausted:  # never the failure that spends the budget: there is nothing to mend in the agent
        agent = replace(agent, failures=max(0, min(agent.failures, agent.policy.max_failures - 2)))
    return _crash(agent, at, event.message, permanent=event.permanent)


def become_ready(agent: Agent, _event: Event, at: Moment) -> Step:
    ready = _enter(agent, State.READY, at, message="", was_ready=True)
    return _timed(ready, ready.policy.reset_after, ObserveStart(at.now - agent.since))


def note(agent: Agent, event: StartFailureReported, _at: Moment) -> Step:
    return Step(replace(agent, message=event.message))


def start_timed_out(agent: Agent, _event: Event, at: Moment) -> Step:
    allowed = SPAWN_TIMEOUT if agent.pid is None else agent.policy.start_timeout
    message = f"not ready within {allowed:g} s"
    return _stop_process(agent, at, after=After.FAILURE, cause=START_TIMEOUT, message=message)


def note_where(agent: Agent, event: StartFailureReported, _at: Moment) -> Step:
    """A worker that was not ready in time says what kept it."""
    if agent.cause != START_TIMEOUT:
        return Step(agent)
    return Step(replace(agent, message=f"{agent.message.partition(': ')[0]}: {event.message}"))


def become_stable(agent: Agent, _event: Event, _at: Moment) -> Step:
    return Step(replace(agent, failures=0))


def become_unhealthy(agent: Agent, event: Unhealthy, at: Moment) -> Step:
    """A worker whose loop does not turn cannot drain, and holds its clients up: it is killed."""
    killing = Kill(agent.generation)
    if agent.is_replacing:
        return _promote(agent, at, killing)
    changes = {"after": After.FAILURE, "cause": "unhealthy", "message": event.message}
    return _timed(_enter(agent, State.KILLING, at, **changes), KILL_TIMEOUT, killing)


def kill_now(agent: Agent, event: KillNow, _at: Moment) -> Step:
    """End the process without another state: the way it ends says what follows, as if it had ended by itself."""
    return Step(agent, (Kill(agent.generation, event.reason),) if agent.live else ())


def die(agent: Agent, event: Died, at: Moment) -> Step:
    agent = _enter(agent, State.KILLING, at, last_exit=event.exit)
    return _timed(agent, KILL_TIMEOUT, Reap(agent.generation))


def die_unasked(agent: Agent, event: Died, at: Moment) -> Step:
    return die(
        replace(agent, after=After.EXIT, message=agent.message or describe_exit(event.exit)), event, at
    )


def die_serving(agent: Agent, event: Died, at: Moment) -> Step:
    if agent.is_replacing:
        return _promote(replace(agent, last_exit=event.exit), at, Reap(agent.generation))
    return die_unasked(agent, event, at)


def die_killed(agent: Agent, event: Died, _at: Moment) -> Step:
    return Step(replace(agent, last_exit=event.exit), (Reap(agent.generation),))


def stop_timed_out(agent: Agent, _event: Event, at: Moment) -> Step:
    agent = _enter(agent, State.KILLING, at)
    return _timed(agent, KILL_TIMEOUT, Kill(agent.generation))


def kill_timed_out(agent: Agent, _event: Event, at: Moment) -> Step:
    if not agent.live:  # only the second worker is awaited, which has timers of its own
        return _timed(agent, KILL_TIMEOUT)
    who = f"process {agent.pid}" if agent.pid is not None else "the process that was being started"
    return _fail(agent, at, f"cannot be killed: {who} is still there {KILL_TIMEOUT:g} s after SIGKILL")


def settle(agent: Agent, _event: Event, at: Moment) -> Step:
    """Nothing is left of the process: go where the operator, the purpose or the policy says."""
    agent = replace(agent, pid=None, live=False)
    if agent.desired is Desired.DOWN:
        return _rest(agent, at)
    if agent.after is After.RESTART:
        return _wait(agent, at)
    permanent = agent.last_exit is not None and agent.last_exit.status == EXIT_PERMANENT
    return _crash(agent, at, agent.message, permanent=permanent)


def lose_second_worker(agent: Agent, at: Moment) -> Step:
    """Something became of the second worker: an agent that only waited for it may rest."""
    awaited = agent.state is State.KILLING or (agent.state is State.FAILED and agent.second_worker is None)
    return _rest(agent, at) if awaited and not agent.live and agent.desired is Desired.DOWN else Step(agent)


def vanish_late(agent: Agent, event: Reaped | SpawnFailed, at: Moment) -> Step:
    """It could not be killed in time, and is gone now: everything goes on as if it had been in time."""
    if not agent.live:
        return Step(agent)
    if isinstance(event, SpawnFailed):
        return spawn_failed(agent, event, at)
    why = agent.message if agent.last_exit is None else describe_exit(agent.last_exit)
    return settle(replace(agent, message=why), event, at)


def redefine(agent: Agent, event: Redefine | Rebind, _at: Moment) -> Step:
    return Step(replace(agent, policy=event.policy))


def redefine_failed(agent: Agent, event: Redefine | Rebind, at: Moment) -> Step:
    agent = replace(agent, policy=event.policy)
    return start_resting(agent, event, at) if agent.desired is Desired.UP else Step(agent)


def redefine_waiting_out(agent: Agent, event: Redefine | Rebind, at: Moment) -> Step:
    return start_now(replace(agent, policy=event.policy), event, at)


def redefine_starting(agent: Agent, event: Redefine, at: Moment) -> Step:
    agent = replace(agent, policy=event.policy)
    return _restart(agent, at, "reload") if event.respawn else Step(agent)


def redefine_ready(agent: Agent, event: Redefine, at: Moment) -> Step:
    agent = replace(agent, policy=event.policy)
    if not event.respawn:
        return Step(agent)
    if agent.is_stuck:
        return _restart(agent, at, "reload")
    agent, abandoning = _taken(replacement.abandon(agent, at.now))  # what is starting has the old definition
    return Step(replace(agent, replace="reload"), abandoning)


def redefine_ending(agent: Agent, event: Redefine, _at: Moment) -> Step:
    agent = replace(agent, policy=event.policy)
    return Step(replace(agent, after=After.RESTART, cause="reload", failures=0) if event.respawn else agent)


def rebind_running(agent: Agent, event: Rebind, at: Moment) -> Step:
    return _restart(replace(agent, policy=event.policy), at, "reload")


def rebind_ending(agent: Agent, event: Rebind, at: Moment) -> Step:
    return redefine_ending(agent, Redefine(event.policy, respawn=True), at)
