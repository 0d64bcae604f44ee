"""What the gateway reads of a chat completion: which agent is meant, and whether it overrides what the agent says.

All else is the worker's to read. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pallas_common.problems import quoted
from pallas_common.protocol.agent.completion import overriding
from pallas_gateway.http.errors import ApiError
from pallas_gateway.http.requests import parsed

if TYPE_CHECKING:
    from collections.abc import Mapping


class Asked(NamedTuple):
    """One completion that is asked for."""

    model: str
    """Name of an agent, as far as there is one."""
    overrides: bool
    """Whether the worker wants its key for it."""


def read_completion(headers: Mapping[str, str], body: bytes) -> Asked:
    """What a request says.

    Raises:
        ApiError: it is no request for a completion, or names no model.
    """
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ApiError(415, "unsupported_media_type", "send `Content-Type: application/json`")
    found = parsed(body, "invalid_json")
    if not isinstance(found, dict):
        raise ApiError(400, "invalid_json", "the body is JSON, but no object")
    model = found.get("model")
    if not isinstance(model, str) or not model:
        message = "model: is required: the name of an agent; `GET /v1/models` lists them"
        raise ApiError(400, "invalid_value", message, field="model")
    return Asked(model, overriding(found) is not None)


def no_such_model(name: str) -> ApiError:
    """For a `model` that is no agent, or none that the caller may run: which of the two is not said."""
    message = (
        f"the model {quoted(name, 80)} does not exist, or this token may not run it; `GET /v1/models` lists those that "
        "it may"
    )
    return ApiError(404, "model_not_found", message, field="model")
