"""What the time that an agent may take to start is counted from."""

from __future__ import annotations

from pallas_supervisor.lifecycle.effects import SetTimer
from pallas_supervisor.lifecycle.events import Spawned
from pallas_supervisor.lifecycle.states import Agent, Desired, Policy, State
from pallas_supervisor.lifecycle.table import step


def test_the_time_begins_when_there_is_a_process() -> None:
    """A zygote that imports on a busy machine takes longer than some agents may: that is no failure of theirs."""
    policy = Policy(start_timeout=4.0)
    waiting = Agent(
        name="research",
        policy=policy,
        state=State.STARTING,
        desired=Desired.UP,
        generation=1,
        last_generation=1,
        live=True,
        timer_epoch=7,
        since=100.0,
    )
    taken = step(waiting, Spawned(1, 42), now=103.0, draw=0.5)
    assert SetTimer(taken.agent.timer_epoch, 4.0) in taken.effects
