"""The machine's table is whole: every state × event is decided, and every decision can come about."""

from __future__ import annotations

import itertools
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, get_args

import pytest

from pallas_supervisor.lifecycle import second_worker as replacement
from pallas_supervisor.lifecycle.effects import Effect, Step
from pallas_supervisor.lifecycle.events import (
    OF_GENERATION,
    CompanionElapsed,
    Complained,
    DependenciesReady,
    DependencyLost,
    Died,
    Elapsed,
    Event,
    Keep,
    Proceed,
    Ready,
    Rebind,
    Redefine,
    Replace,
    Restart,
    Spawned,
    SpawnFailed,
    Start,
    Stop,
    Swept,
    Unhealthy,
)
from pallas_supervisor.lifecycle.states import Agent, CompanionState, Exit, Policy, State
from pallas_supervisor.lifecycle.table import _IGNORED, _ROWS, IGNORE, TABLE, step
from support.supervisor.fakes import agent

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
    assert carriers == {*OF_GENERATION, CompanionElapsed}
    assert {event for event in EVENTS if "epoch" in event.__dataclass_fields__} == {Elapsed}


def possible_events(agent: Agent) -> Iterator[Event]:
    """What may happen to this agent, of its own generation and epoch."""
    yield from (Start(), Stop(), Restart(), DependenciesReady(), DependencyLost("library"))
    yield from (Replace("operator"), Proceed(), Keep(), Rebind(agent.policy))
    yield from (Redefine(agent.policy, respawn) for respawn in (False, True))
    yield from of_process(agent.generation)
    yield Elapsed(agent.epoch)


def of_process(generation: int) -> Iterator[Event]:
    """What may happen to a process."""
    yield from (Spawned(generation, 7), Ready(generation), Swept(generation))
    yield from (SpawnFailed(generation, "no memory", permanent) for permanent in (False, True))
    yield from (Complained(generation, "ImportError"), Unhealthy(generation, "frozen"))
    yield from (Died(generation, Exit(status=status)) for status in (0, 1, 78))


def of_companion(agent: Agent) -> Iterator[Event]:
    """What may happen to the agent's companion."""
    if (companion := agent.companion) is not None:
        yield from of_process(companion.generation)
        yield CompanionElapsed(companion.generation, companion.state)


def essence(agent: Agent) -> Agent:
    """The agent without what only counts or tells the time, so that there are finitely many."""
    companion = agent.companion
    if companion is not None:
        newer = companion.generation > agent.generation
        companion = replace(companion, generation=int(newer), since=0.0, cause="", pid=None)
    counts: dict[str, object] = {
        "epoch": 0,
        "generation": 0,
        "newest": 0,
        "restarts": 0,
        "failures": min(agent.failures, 1),
    }
    counts |= {"companion": companion, "replace": agent.replace and "due"}
    if agent.state not in (State.KILLING, State.FAILED):  # where alone the last exit decides anything
        counts["last_exit"] = None
    counts["was_ready"] = False  # which only decides how long the back-off is
    return replace(
        agent,
        **counts,
        since=0.0,  # type: ignore[arg-type]
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
    companion_rows: set[tuple[CompanionState, type[Event]]] = field(default_factory=set)
    """Every row of the companions' table that changed something or had an effect."""


@pytest.fixture(scope="module")
def explored() -> Explored:
    beginnings = [agent(policy=policy) for policy in POLICIES]
    seen, left = {essence(start) for start in beginnings}, deque(beginnings)
    found = Explored()
    while left:
        before = left.popleft()
        for event in (*possible_events(before), *of_companion(before)):
            taken = step(before, event, now=1.0, draw=0.5)
            after = taken.agent
            if before.companion is not None and event in of_companion(before):
                if taken != Step(before):
                    found.companion_rows.add((before.companion.state, type(event)))
            elif TABLE[before.state, type(event)] is not IGNORE:
                found.rows.setdefault((before.state, type(event)), set()).add(after.state)
            if (known := essence(after)) not in seen:
                seen.add(known)
                left.append(after)
    return found


def test_every_row_that_is_not_ignored_can_come_about(explored: Explored):
    acting = {pair for pair, row in TABLE.items() if row is not IGNORE}
    assert set(explored.rows) == acting


def test_the_table_of_companions_is_whole_and_its_rows_come_about(explored: Explored):
    events = (*OF_GENERATION, CompanionElapsed)
    assert set(replacement.TABLE) == set(itertools.product(CompanionState, events))
    acting = {pair for pair, act in replacement.TABLE.items() if act is not replacement.ignore}
    assert explored.companion_rows == acting


def test_rows_lead_to_exactly_the_states_that_they_declare(explored: Explored):
    declared = {pair: set(TABLE[pair].to) for pair in explored.rows}
    reached = {pair: states - {pair[0]} for pair, states in explored.rows.items()}
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
    assert names == {
        "Spawn", "Terminate", "Kill", "Sweep", "SetTimer", "SetCompanionTimer", "ReplacementFailed", "CountRestart",
        "ObserveStart",
    }  # fmt: skip
