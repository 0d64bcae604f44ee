"""The machine's table is whole: every state × event is decided, and every decision can come about."""

from __future__ import annotations

import itertools
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

import pytest

from pallas_supervisor.machine import _IGNORED, _ROWS, IGNORE, TABLE, step
from pallas_supervisor.states import (
    OF_GENERATION,
    Agent,
    Complained,
    DependenciesReady,
    DependencyLost,
    Died,
    Effect,
    Elapsed,
    Event,
    Exit,
    Policy,
    Ready,
    Redefine,
    Restart,
    Spawned,
    SpawnFailed,
    Start,
    State,
    Stop,
    Swept,
    Unhealthy,
)
from unit.supervisor_fakes import agent

if TYPE_CHECKING:
    from collections.abc import Iterator

EVENTS: tuple[type[Event], ...] = get_args(Event)

POLICIES = (
    Policy(max_failures=2),
    Policy(max_failures=2, on_dependency_loss="restart"),
    Policy(restart="on-failure", max_failures=1),
    Policy(restart="never"),
)


def test_every_state_and_event_is_handled():
    assert set(TABLE) == set(itertools.product(State, EVENTS))


def test_no_pair_is_both_handled_and_ignored():
    handled = {(state, event) for state, rows in _ROWS.items() for event in rows}
    ignored = [(state, event) for state, events in _IGNORED.items() for event in events]
    assert len(ignored) == len(set(ignored))
    assert not handled & set(ignored)


def test_rows_lead_to_other_states_than_their_own():
    for (state, event), row in TABLE.items():
        assert state not in row.to, (state, event)
        assert len(row.to) == len(set(row.to)), (state, event)


def test_events_that_carry_a_generation_are_checked_for_it():
    carriers = {event for event in EVENTS if "generation" in event.__dataclass_fields__}
    assert carriers == set(OF_GENERATION)
    assert {event for event in EVENTS if "epoch" in event.__dataclass_fields__} == {Elapsed}


def possible_events(agent: Agent) -> Iterator[Event]:
    """What may happen to this agent, of its own generation and epoch."""
    generation = agent.generation
    yield from (Start(), Stop(), Restart(), DependenciesReady(), DependencyLost("library"))
    yield from (Redefine(agent.policy, respawn) for respawn in (False, True))
    yield from (Spawned(generation, 7), Ready(generation), Swept(generation))
    yield from (SpawnFailed(generation, "no memory", permanent) for permanent in (False, True))
    yield from (Complained(generation, "ImportError"), Unhealthy(generation, "frozen"))
    yield from (Died(generation, Exit(status=status)) for status in (0, 1, 78))
    yield Elapsed(agent.epoch)


def essence(agent: Agent) -> Agent:
    """The agent without what only counts or tells the time, so that there are finitely many."""
    counts = {"epoch": 0, "generation": 0, "restarts": 0, "failures": min(agent.failures, 1)}
    return replace(agent, **counts, since=0.0, retry_at=None, message="", pid=None, cause=None)


@pytest.fixture(scope="module")
def taken() -> dict[tuple[State, type[Event]], set[State]]:
    """Every row that can come about, and where it led, by trying all events in all situations."""
    beginnings = [agent(policy=policy) for policy in POLICIES]
    seen, left = {essence(start) for start in beginnings}, deque(beginnings)
    found: dict[tuple[State, type[Event]], set[State]] = {}
    while left:
        before = left.popleft()
        for event in possible_events(before):
            after = step(before, event, now=1.0, draw=0.5).agent
            if TABLE[before.state, type(event)] is not IGNORE:
                found.setdefault((before.state, type(event)), set()).add(after.state)
            if (known := essence(after)) not in seen:
                seen.add(known)
                left.append(after)
    return found


def test_every_row_that_is_not_ignored_can_come_about(taken: dict[tuple[State, type[Event]], set[State]]):
    acting = {pair for pair, row in TABLE.items() if row is not IGNORE}
    assert set(taken) == acting


def test_rows_lead_to_exactly_the_states_that_they_declare(
    taken: dict[tuple[State, type[Event]], set[State]],
):
    declared = {pair: set(TABLE[pair].to) for pair in taken}
    reached = {pair: states - {pair[0]} for pair, states in taken.items()}
    assert reached == declared


def test_ignored_events_change_nothing():
    for (state, event_type), row in TABLE.items():
        if row is IGNORE:
            before = agent(state=state)
            for event in possible_events(before):
                if type(event) is event_type:
                    assert step(before, event, now=9.0, draw=0.5).agent is before


def test_effects_are_what_the_engine_carries_out():
    names = {effect.__name__ for effect in get_args(Effect)}
    assert names == {"Spawn", "Terminate", "Kill", "Sweep", "SetTimer", "CountRestart", "ObserveStart"}
