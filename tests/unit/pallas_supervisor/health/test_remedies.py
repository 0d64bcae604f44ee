"""What a person is told to do."""

from __future__ import annotations

from typing import Any

import pytest

from pallas_supervisor.health.remedies import remedy
from pallas_supervisor.lifecycle.states import Desired, State
from support.supervisor.fakes import agent

WELL: dict[str, Any] = {"status": "ok", "downstreams": [], "provider": None}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"state": State.FAILED}, "pallasctl start research"),
        ({"state": State.BACKOFF}, "started again by itself"),
        ({"state": State.STOPPED, "desired": Desired.DOWN}, "pallasctl start research"),
        ({"state": State.WAITING}, "pallasctl describe library"),
    ],
)
def test_by_state(changes: dict[str, Any], words: str) -> None:
    said = remedy(agent(**changes), WELL, ["library"])
    assert said is not None
    assert words in said


@pytest.mark.parametrize(
    ("health", "words"),
    [
        ({"downstreams": [{"name": "files", "up": False}]}, "files can be reached"),
        ({"provider": {"name": "openai", "up": False}}, "openai can be reached"),
    ],
)
def test_of_one_that_is_ready(health: dict[str, Any], words: str) -> None:
    said = remedy(agent(state=State.READY), {**WELL, "status": "degraded", **health}, [])
    assert said is not None
    assert words in said


def test_who_is_well_needs_nothing() -> None:
    assert remedy(agent(state=State.READY), WELL, []) is None
