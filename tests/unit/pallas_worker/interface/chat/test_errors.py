"""OpenAI's error objects: one status and code for each kind of failure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pallas_worker.interface.chat.errors import error_of
from pallas_worker.interface.errors import ArgumentError, BusyError, CallError, FailedTurn, FailureKind
from pallas_worker.interface.providers.failures import ModelFailure

if TYPE_CHECKING:
    from pallas_worker.interface.providers.kinds import Kind


@pytest.mark.parametrize(
    ("kind", "message", "status", "code"),
    [
        ("argument", "n: must be 1", 400, "invalid_value"),
        ("forbidden", "extra: is not for this caller", 403, "override_forbidden"),
        ("busy", "the agent is busy", 429, "agent_busy"),
        ("model", "the LLM provider failed", 502, "model_failed"),
        ("agent", "ServerInitializationError: x", 503, "agent_failed"),
        ("internal", "the call failed inside the worker", 500, "internal_error"),
    ],
)
def test_each_kind(kind: FailureKind, message: str, status: int, code: str) -> None:
    error = error_of(FailedTurn(kind, message, CallError(message)))
    assert (error.status, error.code) == (status, code)
    assert error.document() == {
        "error": {"message": message, "type": error.type, "param": None, "code": code},
        "pallas": {"status": status},
    }
    # Tools may have run: whether to ask again is for the caller to decide, not for his client's library.
    assert (error.headers.get("X-Should-Retry") == "false") == (status >= 500)


def test_the_field_that_is_wrong() -> None:
    assert error_of(FailedTurn("argument", "n: no", ArgumentError("n: no", "n"))).param == "n"


def test_when_there_may_be_room() -> None:
    assert error_of(FailedTurn("busy", "busy", BusyError("busy", 7))).headers == {"Retry-After": "7"}
    assert error_of(FailedTurn("busy", "busy", BusyError("busy"))).headers == {}


def failed(kind: Kind, *, acted: bool = False) -> FailedTurn:
    failure = ModelFailure(kind, 429, retry_after=7, detail="its own words")
    return FailedTurn("model", "no", CallError("no", failure), model_failure=failure, acted=acted)


@pytest.mark.parametrize("kind", ["rate_limit", "overloaded"])
def test_a_clients_library_waits_and_asks_again_unless_a_tool_was_called(kind: Kind) -> None:
    error = error_of(failed(kind))
    assert error.status in (429, 503)
    assert error.headers == {"Retry-After": "7"}
    assert error.document()["pallas"] == {"status": error.status, "retry_after": 7}
    assert error_of(failed(kind, acted=True)).headers == {"Retry-After": "7", "X-Should-Retry": "false"}


def test_a_refused_key_is_not_the_clients() -> None:
    error = error_of(failed("key_refused"))
    assert (error.status, error.code) == (502, "provider_key_refused")
    assert error.headers["X-Should-Retry"] == "false"


def test_a_providers_own_words_are_for_those_who_may_read_logs() -> None:
    assert "its own words" not in str(error_of(failed("failed")).document())
    assert error_of(failed("failed"), detailed=True).document()["pallas"] == {
        "status": 502,
        "retry_after": 7,
        "detail": "its own words",
    }
