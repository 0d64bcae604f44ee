"""The kinds of failures of an LLM provider: one row for each, with all that any surface says or does about it.

Pure. Knows statuses of HTTP and words for people; must not know which exception is of which kind: that is in `classes`,
and how one is read in `failures`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

type Kind = Literal[
    "context_length",
    "content_filter",
    "rate_limit",
    "overloaded",
    "credit",
    "key_refused",
    "key_missing",
    "forbidden",
    "not_found",
    "bad_request",
    "timeout",
    "unreachable",
    "broken_off",
    "empty",
    "unreadable",
    "failed",
]

type Health = Literal["fine", "passing", "lasting"]
"""What a failure says of the provider: nothing, that it fails now, or that all calls fail until somebody mends it."""


class KindRow(NamedTuple):
    """What a kind of failure means."""

    status: int
    """Of HTTP, for the client of Pallas. Never 401: clients take that for their own key."""
    type: str
    """Of OpenAI's error object."""
    code: str
    """One word for programs, on all surfaces."""
    sentence: str
    """What has happened; `{who}` is the provider."""
    remedy: str
    """What to do about it."""
    health: Health = "passing"
    again: bool = False
    """Whether the provider is asked again in the same turn."""
    client_again: bool = False
    """Whether a client's library may send the request again by itself, where no tool was called."""


_WAIT = "try again in a moment"
_OPERATOR = "whoever runs the deployment has to"

KINDS: Mapping[Kind, KindRow] = {
    "context_length": KindRow(
        400,
        "invalid_request_error",
        "context_length_exceeded",
        "the conversation is longer than the model can take",
        "shorten it or begin a new one; `context_overflow: shorten` in the agent's settings leaves older turns out",
        health="fine",
    ),
    "content_filter": KindRow(
        400,
        "invalid_request_error",
        "content_filter",
        "{who} refused the request because of what it says",
        "say it in another way",
        health="fine",
    ),
    "rate_limit": KindRow(
        429,
        "rate_limit_error",
        "rate_limit_exceeded",
        "{who} takes no more requests at the moment",
        _WAIT,
        again=True,
        client_again=True,
    ),
    "overloaded": KindRow(
        503,
        "api_error",
        "model_overloaded",
        "{who} is overloaded or out of order at the moment",
        _WAIT,
        again=True,
        client_again=True,
    ),
    "credit": KindRow(
        502,
        "api_error",
        "insufficient_quota",
        "the deployment's account at {who} is out of credit or over its quota",
        f"{_OPERATOR} top it up",
        health="lasting",
    ),
    "key_refused": KindRow(
        502,
        "api_error",
        "provider_key_refused",
        "{who} refused the deployment's API key",
        f"{_OPERATOR} set a valid one and run `pallasctl reload`",
        health="lasting",
    ),
    "key_missing": KindRow(
        502,
        "api_error",
        "provider_key_missing",
        "no API key is configured for {who}",
        f"{_OPERATOR} set one and run `pallasctl reload`",
        health="lasting",
    ),
    "forbidden": KindRow(
        502,
        "api_error",
        "provider_forbids",
        "{who} does not allow this to the deployment's API key",
        f"{_OPERATOR} see which models the key may use",
        health="fine",  # some providers answer 403 for what their moderation refuses
    ),
    "not_found": KindRow(
        502,
        "api_error",
        "provider_model_not_found",
        "{who} does not know the agent's model, or its address is wrong",
        f"{_OPERATOR} correct the model or `base_url`",
        health="lasting",
    ),
    "bad_request": KindRow(
        502,
        "api_error",
        "model_refused",
        "{who} refused the request as invalid",
        "leave out unusual parameters; the agent's log has the provider's own words",
        health="fine",
    ),
    "timeout": KindRow(504, "api_error", "model_timeout", "{who} did not answer in time", _WAIT, again=True),
    "unreachable": KindRow(
        502,
        "api_error",
        "model_unreachable",
        "{who} cannot be reached",
        f"try again; if that does not help, {_OPERATOR} see whether it runs",
        again=True,
    ),
    "broken_off": KindRow(
        502,
        "api_error",
        "model_failed",
        "{who} broke its answer off",
        "ask again",
        health="fine",
        again=True,
    ),
    "empty": KindRow(
        502, "api_error", "model_empty", "the model of {who} said nothing", "ask again", health="fine"
    ),
    "unreadable": KindRow(
        502,
        "api_error",
        "model_failed",
        "{who} gave an answer that cannot be read",
        "ask again; the agent's log has the details",
        health="fine",
        again=True,
    ),
    "failed": KindRow(
        502,
        "api_error",
        "model_failed",
        "{who} failed",
        "ask again; the agent's log has the details",
        again=True,
    ),
}

BY_STATUS: Mapping[int, Kind] = {
    400: "bad_request",
    401: "key_refused",
    402: "credit",
    403: "forbidden",
    404: "not_found",
    408: "timeout",
    409: "overloaded",
    413: "context_length",
    422: "bad_request",
    424: "failed",
    429: "rate_limit",
    503: "overloaded",
    504: "timeout",
    529: "overloaded",
}
"""What a provider's status says where neither its code nor its words say more; other statuses: see `kind_of_status`."""


def kind_of_status(status: int) -> Kind:
    """The kind of an answer with this status of HTTP."""
    return BY_STATUS.get(status) or ("bad_request" if 400 <= status < 500 else "failed")
