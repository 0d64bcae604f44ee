"""OpenAI's error objects: one status and code for each kind of failure."""

from __future__ import annotations

import pytest

from pallas_worker.interface.chat.errors import error_of
from pallas_worker.interface.errors import ArgumentError, BusyError, CallError, FailedTurn, FailureKind


@pytest.mark.parametrize(
    ("kind", "message", "status", "code"),
    [
        ("argument", "n: must be 1", 400, "invalid_value"),
        ("forbidden", "extra: is not for this caller", 403, "override_forbidden"),
        ("busy", "the agent is busy", 429, "agent_busy"),
        ("model", "the LLM provider failed", 502, "model_failed"),
        ("model", "the LLM provider failed: Request timed out.", 504, "model_timeout"),
        ("model", "the model gave no answer (timeout)", 504, "model_timeout"),
        ("agent", "ServerInitializationError: x", 503, "agent_failed"),
        ("internal", "the call failed inside the worker", 500, "internal_error"),
    ],
)
def test_each_kind(kind: FailureKind, message: str, status: int, code: str) -> None:
    error = error_of(FailedTurn(kind, message, CallError(message)))
    assert (error.status, error.code) == (status, code)
    assert error.document() == {
        "error": {"message": message, "type": error.type, "param": None, "code": code}
    }
    # Tools may have run: whether to ask again is for the caller to decide, not for his client's library.
    assert (error.headers.get("X-Should-Retry") == "false") == (status >= 500)


def test_the_field_that_is_wrong() -> None:
    assert error_of(FailedTurn("argument", "n: no", ArgumentError("n: no", "n"))).param == "n"


def test_when_there_may_be_room() -> None:
    assert error_of(FailedTurn("busy", "busy", BusyError("busy", 7))).headers == {"Retry-After": "7"}
    assert error_of(FailedTurn("busy", "busy", BusyError("busy"))).headers == {}
