"""What a caller of chat completions gets to read where there is no answer: OpenAI's error object, and its status.

Pure. Knows failures of turns; must not know what they come from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pallas_worker.interface.errors import FailedTurn, FailureKind


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

    detail: str = ""
    """A provider's own words, for those who may read logs."""

    def document(self) -> dict[str, object]:
        """The error object; beside it, what the status and the headers say to readers of a stream."""
        said = {"message": self.message, "type": self.type, "param": self.param, "code": self.code}
        pallas: dict[str, object] = {"status": self.status}
        if (after := self.headers.get("Retry-After")) is not None:
            pallas["retry_after"] = int(after)
        if self.detail:
            pallas["detail"] = self.detail
        return {"error": said, "pallas": pallas}


_BY_KIND: Mapping[FailureKind, tuple[int, str, str]] = {
    "argument": (400, "invalid_request_error", "invalid_value"),
    "forbidden": (403, "permission_error", "override_forbidden"),
    "busy": (429, "rate_limit_error", "agent_busy"),
    "loop": (508, "invalid_request_error", "agent_loop"),
    "model": (502, "api_error", "model_failed"),
    "agent": (503, "api_error", "agent_failed"),
    "internal": (500, "api_error", "internal_error"),
}

_NO_RETRY = {"X-Should-Retry": "false"}
"""OpenAI's clients send a request again by themselves after 408, 409, 429 and from 500 on, unless told not to. Tools
may have been called in the turn that failed, so that this is for the caller to decide."""


def error_of(failed: FailedTurn, *, detailed: bool = False) -> ApiError:
    """The error for a turn that has ended without an answer.

    Args:
        detailed: the reader may see what is in the log.
    """
    status, kind, code = _BY_KIND[failed.kind]
    again, detail = failed.kind not in ("loop", "model", "agent", "internal"), ""
    if (failure := failed.model_failure) is not None:
        status, kind, code = failure.row.status, failure.row.type, failure.row.code
        again = (failure.row.client_again or status < 500) and not failed.acted
        detail = failure.detail if detailed else ""
    headers = {} if again else dict(_NO_RETRY)
    if failed.retry_after is not None:
        headers["Retry-After"] = str(failed.retry_after)
    return ApiError(status, str(failed), kind, failed.field, code, headers, detail)


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
    "the header Pallas-Key has no key of this worker: every start of an agent has a new one",
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
