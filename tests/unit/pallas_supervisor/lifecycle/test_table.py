"""The machine's table is whole: every state × event is decided, and every decision can come about."""

from __future__ import annotations

import itertools
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, get_args

import pytest

from pallas_common.protocol.agent.settings import StartPolicy
from pallas_supervisor.lifecycle import second_worker as replacement
from pallas_supervisor.lifecycle.effects import Effect, Step
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
from pallas_supervisor.lifecycle.states import Agent, Exit, Policy, SecondWorkerState, State
from pallas_supervisor.lifecycle.table import _IGNORED, _ROWS, IGNORE, TABLE, step
from support.supervisor.fakes import agent

if TYPE_CHECKING:
    from collections.abc import Iterator

EVENTS: tuple[type[Event], ...] = get_args(Event)

ALWAYS, ON_DEMAND = (Policy(start=start, max_failures=2) for start in get_args(StartPolicy))
POLICIES = (
    ALWAYS,
    ON_DEMAND,
    Policy(max_failures=2, on_dependency_loss="restart"),
    Policy(restart="on-failure", max_failures=1),
    Policy(restart="never"),
)


def test_every_state_and_event_is_handled() -> None:
    assert set(TABLE) == set(itertools.product(State, EVENTS))


def test_no_pair_is_both_handled_and_ignored() -> None:
    handled = {(state, event) for state, rows in _ROWS.items() for event in rows}
    ignored = [(state, event) for state, events in _IGNORED.items() for event in events]
    assert len(ignored) == len(set(ignored))
    assert not handled & set(ignored)


def test_rows_lead_to_other_states_than_their_own() -> None:
    for (state, event), row in TABLE.items():
        assert state not in row.to, (state, event)
        assert len(row.to) == len(set(row.to)), (state, event)


def test_events_that_carry_a_generation_are_checked_for_it() -> None:
    carriers = {event for event in EVENTS if "generation" in event.__dataclass_fields__}
    assert carriers == {*OF_GENERATION, SecondWorkerElapsed}
    assert {event for event in EVENTS if "timer_epoch" in event.__dataclass_fields__} == {Elapsed}


def possible_events(agent: Agent) -> Iterator[Event]:
    """What may happen to this agent, of its own generation and epoch."""
    yield from (
        Arm(),
        Start(),
        Wanted(),
        Stop(),
        HardRestart(),
        DependenciesReady(),
        DependencyLost("library"),
    )
    yield from (RollingRestart("operator"), BeginReplacement(), CancelReplacement())
    for policy in (ALWAYS, ON_DEMAND) if agent.policy in (ALWAYS, ON_DEMAND) else (agent.policy,):
        yield Rebind(policy)
        yield from (Redefine(policy, respawn) for respawn in (False, True))
    yield from of_process(agent.generation)
    yield Elapsed(agent.timer_epoch)


def of_process(generation: int) -> Iterator[Event]:
    """What may happen to a process."""
    yield from (Spawned(generation, 7), Ready(generation), Reaped(generation))
    yield from (SpawnFailed(generation, "no memory", permanent) for permanent in (False, True))
    yield from (StartFailureReported(generation, "ImportError"), Unhealthy(generation, "frozen"))
    yield BecameIdle(generation)
    yield KillNow(generation, "out of memory")
    yield from (Died(generation, Exit(status=status)) for status in (0, 1, 78))


def of_second_worker(agent: Agent) -> Iterator[Event]:
    """What may happen to the agent's second worker."""
    if (second_worker := agent.second_worker) is not None:
        yield from of_process(second_worker.generation)
        yield SecondWorkerElapsed(second_worker.generation, second_worker.state)


def essence(agent: Agent) -> Agent:
    """The agent without what only counts or tells the time, so that there are finitely many."""
    second_worker = agent.second_worker
    if second_worker is not None:
        newer = second_worker.generation > agent.generation
        second_worker = replace(second_worker, generation=int(newer), since=0.0, cause="", pid=None)
    counts: dict[str, Any] = {
        "timer_epoch": 0,
        "generation": 0,
        "last_generation": 0,
        "restarts": 0,
        "failures": min(agent.failures, 1),
    }
    counts |= {"second_worker": second_worker, "replace": agent.replace and "due"}
    if agent.state not in (State.KILLING, State.FAILED):  # where alone the last exit decides anything
        counts["last_exit"] = None
    counts["was_ready"] = False  # which only decides how long the back-off is
    return replace(
        agent,
        **counts,
        since=0.0,
        retry_at=None,
        message="",
        pid=None,
        cause=None,
    )


@dataclass
class Explored:
    """What came about by trying all events in all situations."""

    rows: dict[tuple[State, type[Event]], set[State]] = field(default_factory=dict)
    """Every row of the main table that acted, and where it led."""
    second_worker_rows: set[tuple[SecondWorkerState, type[Event]]] = field(default_factory=set)
    """Every row of the second workers' table that changed something or had an effect."""


@pytest.fixture(scope="module")
def explored() -> Explored:
    beginnings = [agent(policy=policy) for policy in POLICIES]
    seen, left = {essence(start) for start in beginnings}, deque(beginnings)
    found = Explored()
    while left:
        before = left.popleft()
        for event in (*possible_events(before), *of_second_worker(before)):
            taken = step(before, event, now=1.0, draw=0.5)
            after = taken.agent
            if before.second_worker is not None and event in of_second_worker(before):
                if taken != Step(before):
                    found.second_worker_rows.add((before.second_worker.state, type(event)))
            elif TABLE[before.state, type(event)] is not IGNORE:
                found.rows.setdefault((before.state, type(event)), set()).add(after.state)
            if (known := essence(after)) not in seen:
                seen.add(known)
                left.append(after)
    return found


def test_every_row_that_is_not_ignored_can_come_about(explored: Explored) -> None:
    acting = {pair for pair, row in TABLE.items() if row is not IGNORE}
    assert set(explored.rows) == acting


def test_the_table_of_second_workers_is_whole_and_its_rows_come_about(explored: Explored) -> None:
    events = (*OF_GENERATION, SecondWorkerElapsed)
    assert set(replacement.TABLE) == set(itertools.product(SecondWorkerState, events))
    acting = {pair for pair, act in replacement.TABLE.items() if act is not replacement.ignore}
    assert explored.second_worker_rows == acting


def test_rows_lead_to_exactly_the_states_that_they_declare(explored: Explored) -> None:
    declared = {pair: set(TABLE[pair].to) for pair in explored.rows}
    reached = {pair: states - {pair[0]} for pair, states in explored.rows.items()}
    assert reached == declared


def test_ignored_events_change_nothing() -> None:
    for (state, event_type), row in TABLE.items():
        if row is IGNORE:
            before = agent(state=state)
            for event in possible_events(before):
                if type(event) is event_type:
                    assert step(before, event, now=9.0, draw=0.5).agent is before


def test_effects_are_what_the_engine_carries_out() -> None:
    names = {effect.__name__ for effect in get_args(Effect)}
    assert names == {
        "Spawn", "Terminate", "Kill", "Reap", "SetTimer", "SetSecondWorkerTimer", "ReplacementFailed", "CountRestart",
        "ObserveStart",
    }  # fmt: skip
