"""How loudly the log tells of changes."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from pallas_supervisor.lifecycle.states import After, Desired, Exit, State, Transition
from pallas_supervisor.logs.transitions import log_transition
from support.supervisor.fakes import agent

DOWN: dict[str, Any] = {"desired": Desired.DOWN}


@pytest.mark.parametrize(
    ("before", "after", "level"),
    [
        ({"state": State.STOPPED}, {"state": State.WAITING}, logging.INFO),
        ({"state": State.STARTING}, {"state": State.BACKOFF}, logging.WARNING),
        ({"state": State.BACKOFF}, {"state": State.FAILED}, logging.ERROR),
        ({"state": State.STOPPED}, {"state": State.IDLE}, logging.DEBUG),
        ({"state": State.IDLE}, {"state": State.WAITING}, logging.INFO),
        ({"state": State.READY}, {"state": State.STOPPING, "after": After.IDLE}, logging.INFO),
        ({"state": State.STOPPING}, {"state": State.KILLING, "after": After.IDLE}, logging.DEBUG),
        ({"state": State.KILLING}, {"state": State.IDLE, "after": After.IDLE}, logging.DEBUG),
        ({"state": State.STOPPING}, {"state": State.KILLING, "after": After.RESTART}, logging.INFO),
        ({"state": State.BACKOFF}, {"state": State.IDLE}, logging.INFO),
        (
            DOWN | {"state": State.STOPPING},
            DOWN | {"state": State.KILLING, "last_exit": Exit(status=0)},
            logging.DEBUG,
        ),
        (DOWN | {"state": State.STOPPING}, DOWN | {"state": State.KILLING}, logging.INFO),
    ],
)
def test_a_change_is_told_as_loudly_as_it_matters(
    caplog: pytest.LogCaptureFixture, before: dict[str, Any], after: dict[str, Any], level: int
) -> None:
    with caplog.at_level(logging.DEBUG):
        log_transition(Transition(agent(**before), agent(**after)), "because")
    assert [record.levelno for record in caplog.records] == [level]
    assert f"research: {before['state']} -> {after['state']} (because)" in caplog.text


@pytest.mark.parametrize(
    ("exit_", "said"), [(Exit(status=0), "stopping -> stopped"), (Exit(signal=9), "killing -> stopped")]
)
def test_one_that_has_ended_when_it_was_asked_to_was_not_killed(
    caplog: pytest.LogCaptureFixture, exit_: Exit, said: str
) -> None:
    before = agent(**DOWN, state=State.KILLING, last_exit=exit_)
    with caplog.at_level(logging.DEBUG):
        log_transition(Transition(before, agent(**DOWN, state=State.STOPPED, last_exit=exit_)), "")
    assert caplog.messages == [f"research: {said}"]
