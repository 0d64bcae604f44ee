"""What the failure of a call says of the LLM that was asked: nothing, that it fails now, or that it refuses all calls.

Knows how fast-agent and the providers' clients say it; must not know health. The words are never the provider's own.
"""

from __future__ import annotations

import json
import traceback
from copy import replace
from typing import TYPE_CHECKING, NamedTuple

from fast_agent.constants import FAST_AGENT_ERROR_CHANNEL, FAST_AGENT_PROVIDER_ERROR
from fast_agent.core.exceptions import ProviderKeyError, walk_exception_chain
from fast_agent.llm.fastagent_llm import FastAgentLLM
from fast_agent.llm.provider_types import Provider

from pallas_worker.agent.models.keys import unset_key
from pallas_worker.agent.models.providers import health_name

if TYPE_CHECKING:
    from fast_agent.types import PromptMessageExtended

_REFUSALS = {
    401: "HTTP 401: the API key is not accepted",
    402: "HTTP 402: the account is not in credit",
    404: "HTTP 404: the model or the address is not known there",
}
"""They follow from the configuration or the account, and not from what was asked."""
_PASSING = frozenset({408, 409, 429, *range(500, 600)})
"""They may be over with the next call. All others are the request's own fault, or may be: some providers answer 403 for
what their moderation refuses."""

_PROVIDERS = frozenset(provider.config_name for provider in Provider)


class ModelFailure(NamedTuple):
    """Why an LLM gave no answer."""

    reason: str
    """In one line."""
    lasting: bool
    """Whether the next call has to fail just so."""
    provider: str | None = None
    """The LLM's provider, as health names it; None where nothing says which it was."""


NO_ANSWER = ModelFailure("it gives no answer", lasting=False)


def failure_of(error: BaseException) -> ModelFailure | None:
    """What an error that ended a call says of the LLM; None if nothing."""
    failure = _failure_of(error)
    if failure is None or failure.provider is not None:
        return failure
    return replace(failure, provider=_provider_behind(error))


def _failure_of(error: BaseException) -> ModelFailure | None:
    for link in walk_exception_chain(error):
        if (failure := getattr(link, "model_failure", None)) is not None:
            return failure if isinstance(failure, ModelFailure) else None
        if (status := _status(link)) is not None:
            return _by_status(status)
        if _is_of_a_client(link) and type(link).__name__ in ("APIConnectionError", "APITimeoutError"):
            return NO_ANSWER
    if not isinstance(error, ProviderKeyError):
        return None
    return ModelFailure(unset_key(error) or "the API key is not accepted", lasting=True)


def failure_in(answer: PromptMessageExtended) -> ModelFailure | None:
    """What fast-agent says of the LLM beside the apology that it makes of a failed request; None if nothing."""
    for block in (answer.channels or {}).get(FAST_AGENT_PROVIDER_ERROR, ()):
        try:
            said = json.loads(getattr(block, "text", ""))
        except ValueError:
            return None
        status = said.get("status") if isinstance(said, dict) else None
        failure = _by_status(status) if isinstance(status, int) else NO_ANSWER
        return failure and replace(failure, provider=_provider_in(answer))
    return None


def _provider_behind(error: BaseException) -> str | None:
    """The provider of the LLM that the error has come through."""
    for link in walk_exception_chain(error):
        for frame, _ in traceback.walk_tb(link.__traceback__):
            if isinstance(llm := frame.f_locals.get("self"), FastAgentLLM):
                return health_name(llm.provider.config_name)
    return None


def _provider_in(answer: PromptMessageExtended) -> str | None:
    """The provider of the LLM that failed: the first word of what fast-agent says beside the apology."""
    for block in (answer.channels or {}).get(FAST_AGENT_ERROR_CHANNEL, ()):
        label, _, _ = getattr(block, "text", "").partition(" request failed")
        if label in _PROVIDERS:
            return health_name(label)
    return None


def _status(error: BaseException) -> int | None:
    """The HTTP status that an error of a provider's client carries; Google's calls it `code`."""
    name = "code" if type(error).__module__.startswith("google.genai") else "status_code"
    status = getattr(error, name, None)
    return status if isinstance(status, int) else None


def _by_status(status: int) -> ModelFailure | None:
    if (reason := _REFUSALS.get(status)) is not None:
        return ModelFailure(reason, lasting=True)
    return ModelFailure(f"HTTP {status}", lasting=False) if status in _PASSING else None


def _is_of_a_client(error: BaseException) -> bool:
    return type(error).__module__.partition(".")[0] in ("openai", "anthropic")
