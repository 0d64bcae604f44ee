"""What a caller of chat completions gets to read where there is no answer: OpenAI's error object, and its status.

Pure. Knows failures of turns; must not know what they come from.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pallas_worker.interface.errors import FailedTurn, FailureKind

_TIMED_OUT = re.compile(r"time(d[ -])?out", re.IGNORECASE)


class ApiError(NamedTuple):
    """An error on the wire."""

    status: int
    """Of the HTTP response, where it has not begun yet."""
    message: str
    type: str = "invalid_request_error"
    param: str | None = None
    """The field that it is about."""
    code: str | None = None
    headers: Mapping[str, str] = {}
    """Of the response: when to try again, and whether a client that does so by itself may."""

    def document(self) -> dict[str, object]:
        """The error object."""
        return {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}


_BY_KIND: Mapping[FailureKind, tuple[int, str, str]] = {
    "argument": (400, "invalid_request_error", "invalid_value"),
    "forbidden": (403, "permission_error", "override_forbidden"),
    "busy": (429, "rate_limit_error", "agent_busy"),
    "model": (502, "api_error", "model_failed"),
    "agent": (503, "api_error", "agent_failed"),
    "internal": (500, "api_error", "internal_error"),
}

_NO_RETRY = {"X-Should-Retry": "false"}
"""OpenAI's clients send a request again by themselves after 408, 409, 429 and from 500 on, unless told not to. Tools
may have been called in the turn that failed, so that this is for the caller to decide."""


def error_of(failed: FailedTurn) -> ApiError:
    """The error for a turn that has ended without an answer."""
    status, kind, code = _BY_KIND[failed.kind]
    headers: Mapping[str, str] = {}
    if failed.kind in ("model", "agent", "internal"):
        headers = _NO_RETRY
    elif failed.retry_after is not None:
        headers = {"Retry-After": str(failed.retry_after)}
    if failed.kind == "model" and _TIMED_OUT.search(str(failed)):
        status, code = 504, "model_timeout"
    return ApiError(status, str(failed), kind, failed.field, code, headers)


def no_such_model(name: str, agent: str) -> ApiError:
    """For a `model` that is not the agent's name."""
    message = f"the model '{name[:80]}' does not exist here; this agent is '{agent}'"
    return ApiError(404, message, param="model", code="model_not_found")


def method_not_allowed(method: str, allowed: str) -> ApiError:
    """For a method that a path does not have."""
    message = f"{method[:20]} is not for this path; use {allowed}"
    return ApiError(405, message, code="method_not_allowed", headers={"Allow": allowed})


WRONG_KEY = ApiError(
    403,
    "the header Pallas-Key does not have this worker's key: every start of an agent has a new one",
    "permission_error",
    code="wrong_key",
)
TOO_SLOW = ApiError(
    503,
    "what happens is not read, and too much of it waits",
    "api_error",
    code="reader_too_slow",
    headers=_NO_RETRY,
)
ENDING = ApiError(
    503, "the agent is being stopped or restarted; try again", "api_error", code="agent_stopping"
)
