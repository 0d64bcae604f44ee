"""Exits that are kept: bounded, and each with the reason that the agent's state tells."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pallas_supervisor.health.past_exits import KEPT, LINES, LONGEST, PastExits, log_line, why_ended
from pallas_supervisor.lifecycle.events import Died
from pallas_supervisor.lifecycle.states import After, Exit, SecondWorker, SecondWorkerState, State
from pallas_supervisor.logs.router import LogRouter
from support.supervisor.fakes import agent


def second(state: SecondWorkerState) -> SecondWorker:
    return SecondWorker(generation=3, state=state, since=0.0, pid=7, cause="operator")


@pytest.mark.parametrize(
    ("before", "asked", "reason"),
    [
        ({"state": State.READY}, False, ""),
        ({"state": State.STARTING, "message": "ImportError: x"}, False, "while it started; ImportError: x"),
        ({"state": State.STARTING}, False, "while it started"),
        ({"state": State.STOPPING}, True, "stop"),
        ({"state": State.STOPPING, "after": After.RESTART, "cause": "reload"}, True, "restart (reload)"),
        ({"state": State.STOPPING, "message": "not ready within 60 s"}, True, "not ready within 60 s"),
        ({"state": State.KILLING}, True, "did not end within stop_timeout, 10 s"),
        ({"state": State.KILLING, "message": "no heartbeat"}, True, "no heartbeat"),
        ({"state": State.READY, "second_worker": second(SecondWorkerState.KILLING)}, False, ""),
    ],
)
def test_why_a_worker_ended(before: dict[str, Any], asked: bool, reason: str) -> None:
    assert why_ended(agent(generation=4, **before), 4) == (asked, reason)


@pytest.mark.parametrize(
    ("state", "asked", "reason"),
    [
        (SecondWorkerState.DRAINING, True, "replaced (operator)"),
        (SecondWorkerState.STARTING, False, "while it started to replace the one before"),
        (SecondWorkerState.KILLING, True, "killed after it was replaced"),
    ],
)
def test_why_a_second_worker_ended(state: SecondWorkerState, asked: bool, reason: str) -> None:
    ready = agent(state=State.READY, generation=4, second_worker=second(state))
    assert why_ended(ready, 3) == (asked, reason)


def test_only_the_newest_are_kept_and_each_is_bounded() -> None:
    router = LogRouter(lambda _: None)
    for number in range(100):
        record = {"time": f"t{number:03}", "level": "INFO", "generation": 1, "logger": "x"}
        router.put("research", {**record, "message": f"{number} " + "y" * 5000})
    exits = PastExits(router, lambda _: 100.0, lambda: 103.5)
    for status in range(20):
        exits.note(agent(state=State.READY, generation=1), Died(1, Exit(status=status)))
    kept = exits.of("research")
    assert [past["exit"] for past in kept] == [f"exit status {status}" for status in range(19, 19 - KEPT, -1)]
    assert len(kept[0]["lines"]) == LINES
    assert kept[0]["lines"][-1]["message"].startswith("99 ")
    assert all(len(line["message"]) <= LONGEST for line in kept[0]["lines"])
    assert kept[0]["ran"] == 3.5
    assert len(json.dumps(kept)) < 50_000
    exits.forget("research")
    assert exits.of("research") == []


def test_of_a_traceback_the_last_line_is_told() -> None:
    record = {"message": "it failed", "exception": "Traceback …\n  File x\nValueError: no\n"}
    assert log_line(record).message == "it failed: ValueError: no"
