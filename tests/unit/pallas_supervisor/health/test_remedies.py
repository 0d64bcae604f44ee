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
    said = remedy(agent(**changes), WELL, ["library"], {})
    assert said is not None
    assert words in said


def down(name: str, error: str | None = None) -> dict[str, Any]:
    return {"name": name, "up": False, "error": error}


@pytest.mark.parametrize(
    ("health", "expected"),
    [
        (
            {"downstreams": [down("files"), down("web")]},
            (
                "see that the command of files runs (npx files), web can be reached from here; "
                "it is tried again by itself"
            ),
        ),
        (
            {"message": "no API key is configured for OpenAI: set OPENAI_API_KEY in .env"},
            "set OPENAI_API_KEY in .env, then `pallasctl reload`",
        ),
        (
            {
                "message": "LLM: openai: no API key is configured: set OPENAI_API_KEY in .env",
                "provider": down("openai", "no API key is configured: set OPENAI_API_KEY in .env"),
            },
            "set OPENAI_API_KEY in .env, then `pallasctl reload`",
        ),
        (
            {"provider": down("openai", "HTTP 401: the API key is not accepted")},
            "put a key into .env that openai takes, then `pallasctl reload`",
        ),
        (
            {"provider": down("openai", "model 'x' not found")},
            "correct the model, or where openai is, in the configuration, then `pallasctl reload`",
        ),
        (
            {"provider": down("openai", "cannot connect")},
            "see that openai can be reached; it is tried again by itself",
        ),
    ],
)
def test_of_one_that_is_ready(health: dict[str, Any], expected: str) -> None:
    entry = {**WELL, "status": "degraded", **health}
    assert remedy(agent(state=State.READY), entry, [], {"files": "npx files"}) == expected


def test_who_is_well_needs_nothing() -> None:
    assert remedy(agent(state=State.READY), WELL, [], {}) is None
