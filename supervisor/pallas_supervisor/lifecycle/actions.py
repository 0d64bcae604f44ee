"""What each event does to an agent: one small pure function for each row of the machine's table.

Named for what happened. Each takes the agent, the event and the moment, and returns the agent after it and the effects.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pallas_common.protocol.spec import EXIT_PERMANENT
from pallas_supervisor.lifecycle import moves as go
from pallas_supervisor.lifecycle import second_worker as replacement
from pallas_supervisor.lifecycle.effects import (
    CountRestart,
    Kill,
    ObserveStart,
    Reap,
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
from pallas_supervisor.lifecycle.exits import describe_exit, describe_seconds
from pallas_supervisor.lifecycle.second_worker import KILL_TIMEOUT, SPAWN_TIMEOUT
from pallas_supervisor.lifecycle.states import After, Agent, Desired, State

if TYPE_CHECKING:
    from pallas_supervisor.lifecycle.moves import Moment

START_TIMEOUT = "start_timeout"
"""The cause of an end that came because a worker was not ready in time."""


def ignore(agent: Agent, _event: Event, _at: Moment) -> Step:
    return Step(agent)


def start_resting(agent: Agent, _event: Event, at: Moment) -> Step:
    return go.be_up(replace(agent, warm=True), at)


def arm_resting(agent: Agent, _event: Event, at: Moment) -> Step:
    return go.be_up(agent, at)


def start_now(agent: Agent, _event: Event, at: Moment) -> Step:
    return go.wait(replace(agent, desired=Desired.UP, warm=True, failures=0), at)


def arm_now(agent: Agent, _event: Event, at: Moment) -> Step:
    return go.resume(replace(agent, failures=0), at)


def try_again(agent: Agent, _event: Event, at: Moment) -> Step:
    return go.resume(agent, at)


def wake(agent: Agent, _event: Event, at: Moment) -> Step:
    return go.wait(agent, at, message="a connection waits")


def want_warm(agent: Agent, _event: Event, _at: Moment) -> Step:
    return Step(replace(agent, warm=True))


def want_warm_again(agent: Agent, event: Event, at: Moment) -> Step:
    if agent.desired is Desired.DOWN:
        return restart_again(agent, event, at)
    after = After.RESTART if agent.after is After.IDLE else agent.after
    return Step(replace(agent, warm=True, after=after))


def want_up_again(agent: Agent, event: Event, at: Moment) -> Step:
    if agent.desired is Desired.UP:
        return Step(agent)
    if not agent.policy.on_demand:
        return restart_again(agent, event, at)
    agent = replace(agent, desired=Desired.UP, failures=0, cause=None)
    return Step(replace(agent, after=After.IDLE)) if agent.live else go.resume(agent, at)


def restart_again(agent: Agent, _event: Event, at: Moment) -> Step:
    if agent.desired is Desired.UP and agent.after is After.IDLE:
        return Step(agent)  # what was to be replaced is on its way out
    agent = replace(agent, desired=Desired.UP, warm=True, cause="operator", failures=0)
    # Without a process it only waited for its second worker, which a start does not need to be gone.
    if not agent.live:
        return go.wait(agent, at)
    return Step(replace(agent, after=After.RESTART))


def want_down(agent: Agent, _event: Event, _at: Moment) -> Step:
    return Step(replace(agent, desired=Desired.DOWN, warm=False))


def stop_without_process(agent: Agent, _event: Event, at: Moment) -> Step:
    agent = replace(agent, desired=Desired.DOWN, warm=False)
    if agent.live:
        agent = go.enter(agent, State.KILLING, at)
        return go.timed(agent, KILL_TIMEOUT, Kill(agent.generation))
    return go.rest(agent, at)


def stop_running(agent: Agent, _event: Event, at: Moment) -> Step:
    return go.stop_process(agent, at, desired=Desired.DOWN, warm=False, after=After.RESTART, message="")


def restart_running(agent: Agent, _event: Event, at: Moment) -> Step:
    return go.restart(replace(agent, warm=True), at, "operator")


def restart_idle(agent: Agent, _event: Event, _at: Moment) -> Step:
    """There is nothing to be replaced."""
    return Step(replace(agent, failures=0))


def restart_gracefully(agent: Agent, event: RollingRestart, at: Moment) -> Step:
    if agent.is_stuck:  # there cannot be a third process
        return go.restart(agent, at, event.cause)
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
    return go.stop_process(agent, at, after=After.RESTART, cause="dependency", message=message)


def spawn(agent: Agent, _event: Event, at: Moment) -> Step:
    restarting = agent.cause is not None
    started = go.enter(
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
    return go.timed(started, SPAWN_TIMEOUT, *counted, Spawn(started.generation))


def learn_pid(agent: Agent, event: Spawned, _at: Moment) -> Step:
    """The time to start begins: how long it took to make the process does not count."""
    return go.timed(replace(agent, pid=event.pid), agent.policy.start_timeout)


def terminate_late(agent: Agent, event: Spawned, _at: Moment) -> Step:
    return Step(replace(agent, pid=event.pid), (Terminate(agent.generation),))


def kill_late(agent: Agent, event: Spawned, _at: Moment) -> Step:
    return Step(replace(agent, pid=event.pid), (Kill(agent.generation),))


def spawn_failed(agent: Agent, event: SpawnFailed, at: Moment) -> Step:
    agent = replace(agent, pid=None, live=False)
    if agent.desired is Desired.DOWN:
        return go.rest(agent, at)
    if agent.after is After.RESTART:
        return go.wait(agent, at)
    if agent.after is After.IDLE:
        return go.resume(agent, at)
    agent = replace(agent, last_exit=None)
    if event.exhausted:  # never the failure that spends the budget: there is nothing to mend in the agent
        agent = replace(agent, failures=max(0, min(agent.failures, agent.policy.max_failures - 2)))
    return go.crash(agent, at, event.message, permanent=event.permanent)


def become_ready(agent: Agent, _event: Event, at: Moment) -> Step:
    ready = go.enter(agent, State.READY, at, message="", was_ready=True, warm=False)
    return go.timed(ready, ready.policy.reset_after, ObserveStart(at.now - agent.since))


def note(agent: Agent, event: StartFailureReported, _at: Moment) -> Step:
    return Step(replace(agent, message=event.message))


def start_timed_out(agent: Agent, _event: Event, at: Moment) -> Step:
    allowed = SPAWN_TIMEOUT if agent.pid is None else agent.policy.start_timeout
    message = f"not ready within {allowed:g} s"
    return go.stop_process(agent, at, after=After.FAILURE, cause=START_TIMEOUT, message=message)


def note_where(agent: Agent, event: StartFailureReported, _at: Moment) -> Step:
    """A worker that was not ready in time says what kept it."""
    if agent.cause != START_TIMEOUT:
        return Step(agent)
    return Step(replace(agent, message=f"{agent.message.partition(': ')[0]}: {event.message}"))


def become_stable(agent: Agent, _event: Event, _at: Moment) -> Step:
    return Step(replace(agent, failures=0))


def become_idle(agent: Agent, _event: Event, at: Moment) -> Step:
    """Nobody calls: a worker that has lived until then has not failed, however shortly."""
    if not agent.policy.on_demand or agent.replace is not None or agent.second_worker is not None:
        return Step(agent)
    message = f"no call for {describe_seconds(agent.policy.idle_timeout)}"
    return go.stop_process(agent, at, after=After.IDLE, message=message, failures=0)


def become_unhealthy(agent: Agent, event: Unhealthy, at: Moment) -> Step:
    """A worker whose loop does not turn cannot drain, and holds its clients up: it is killed."""
    killing = Kill(agent.generation)
    if agent.is_replacing:
        return go.promote(agent, at, killing)
    changes = {"after": After.FAILURE, "cause": "unhealthy", "message": event.message}
    return go.timed(go.enter(agent, State.KILLING, at, **changes), KILL_TIMEOUT, killing)


def kill_now(agent: Agent, event: KillNow, _at: Moment) -> Step:
    """End the process without another state: the way it ends says what follows, as if it had ended by itself."""
    return Step(agent, (Kill(agent.generation, event.reason),) if agent.live else ())


def die(agent: Agent, event: Died, at: Moment) -> Step:
    agent = go.enter(agent, State.KILLING, at, last_exit=event.exit)
    return go.timed(agent, KILL_TIMEOUT, Reap(agent.generation))


def die_unasked(agent: Agent, event: Died, at: Moment) -> Step:
    return die(
        replace(agent, after=After.EXIT, message=agent.message or describe_exit(event.exit)), event, at
    )


def die_serving(agent: Agent, event: Died, at: Moment) -> Step:
    if agent.is_replacing:
        return go.promote(replace(agent, last_exit=event.exit), at, Reap(agent.generation))
    return die_unasked(agent, event, at)


def die_killed(agent: Agent, event: Died, _at: Moment) -> Step:
    return Step(replace(agent, last_exit=event.exit), (Reap(agent.generation),))


def stop_timed_out(agent: Agent, _event: Event, at: Moment) -> Step:
    agent = go.enter(agent, State.KILLING, at)
    return go.timed(agent, KILL_TIMEOUT, Kill(agent.generation))


def kill_timed_out(agent: Agent, _event: Event, at: Moment) -> Step:
    if not agent.live:  # only the second worker is awaited, which has timers of its own
        return go.timed(agent, KILL_TIMEOUT)
    who = f"process {agent.pid}" if agent.pid is not None else "the process that was being started"
    return go.fail(agent, at, f"cannot be killed: {who} is still there {KILL_TIMEOUT:g} s after SIGKILL")


def settle(agent: Agent, _event: Event, at: Moment) -> Step:
    """Nothing is left of the process: go where the operator, the purpose or the policy says."""
    agent = replace(agent, pid=None, live=False)
    if agent.desired is Desired.DOWN:
        return go.rest(agent, at)
    if agent.after is After.RESTART:
        return go.wait(agent, at)
    if agent.after is After.IDLE:
        return go.resume(agent, at)
    permanent = agent.last_exit is not None and agent.last_exit.status == EXIT_PERMANENT
    return go.crash(agent, at, agent.message, permanent=permanent)


def lose_second_worker(agent: Agent, at: Moment) -> Step:
    """Something became of the second worker: an agent that only waited for it may rest."""
    awaited = agent.state is State.KILLING or (agent.state is State.FAILED and agent.second_worker is None)
    return go.rest(agent, at) if awaited and not agent.live and agent.desired is Desired.DOWN else Step(agent)


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


def redefine_idle(agent: Agent, event: Redefine | Rebind, at: Moment) -> Step:
    agent = replace(agent, policy=event.policy)
    return Step(agent) if agent.policy.on_demand else go.wait(agent, at)


def redefine_failed(agent: Agent, event: Redefine | Rebind, at: Moment) -> Step:
    agent = replace(agent, policy=event.policy)
    return go.be_up(agent, at) if agent.desired is Desired.UP else Step(agent)


def redefine_waiting_out(agent: Agent, event: Redefine | Rebind, at: Moment) -> Step:
    return arm_now(replace(agent, policy=event.policy), event, at)


def redefine_starting(agent: Agent, event: Redefine, at: Moment) -> Step:
    agent = replace(agent, policy=event.policy)
    return go.restart(agent, at, "reload") if event.respawn else Step(agent)


def redefine_ready(agent: Agent, event: Redefine, at: Moment) -> Step:
    agent = replace(agent, policy=event.policy)
    if not event.respawn:
        return Step(agent)
    if agent.is_stuck:
        return go.restart(agent, at, "reload")
    agent, abandoning = go.taken(
        replacement.abandon(agent, at.now)
    )  # what is starting has the old definition
    return Step(replace(agent, replace="reload"), abandoning)


def redefine_ending(agent: Agent, event: Redefine, _at: Moment) -> Step:
    agent = replace(agent, policy=event.policy)
    if not event.respawn:
        return Step(agent)
    after = After.RESTART if agent.after is After.RESTART else go.after_end(agent)
    cause = "reload" if after is After.RESTART else None
    return Step(replace(agent, after=after, cause=cause, failures=0))


def rebind_running(agent: Agent, event: Rebind, at: Moment) -> Step:
    return go.restart(replace(agent, policy=event.policy), at, "reload")


def rebind_ending(agent: Agent, event: Rebind, at: Moment) -> Step:
    return redefine_ending(agent, Redefine(event.policy, respawn=True), at)
