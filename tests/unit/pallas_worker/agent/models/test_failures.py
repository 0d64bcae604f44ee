"""What a failed call says of its LLM, by the errors of the providers' own clients."""

from __future__ import annotations

from typing import Any

import anthropic
import httpx2
import openai
import pytest
from fast_agent.core.exceptions import AgentConfigError, ProviderKeyError
from fast_agent.llm.provider.error_utils import build_stream_failure_response
from fast_agent.llm.provider_types import Provider
from fast_agent.types import PromptMessageExtended
from google.genai import errors as google

from pallas_worker.agent.models.failures import NO_ANSWER, ModelFailure, failure_in, failure_of
from pallas_worker.interface.errors import CallError

REQUEST = httpx2.Request("POST", "http://llm/v1/chat/completions")
REFUSED = ModelFailure("HTTP 401: the API key is not accepted", lasting=True)


def answered(status: int, client: Any = openai) -> openai.APIStatusError:
    response = httpx2.Response(status, request=REQUEST)
    error: openai.APIStatusError = client.APIStatusError("sk-secret is wrong", response=response, body=None)
    return error


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (answered(401), REFUSED),
        (answered(401, anthropic), REFUSED),
        (answered(404), ModelFailure("HTTP 404: the model or the address is not known there", lasting=True)),
        (answered(429), ModelFailure("HTTP 429", lasting=False)),
        (answered(503), ModelFailure("HTTP 503", lasting=False)),
        (answered(400), None),
        (answered(403), None),
        (answered(413), None),
        (openai.APIConnectionError(request=REQUEST), NO_ANSWER),
        (anthropic.APITimeoutError(request=REQUEST), NO_ANSWER),
        (RuntimeError("a bug"), None),
    ],
)
def test_errors_of_clients(error: Exception, failure: ModelFailure | None) -> None:
    assert failure_of(error) == failure
    caught = CallError("the LLM provider failed")
    caught.__cause__ = error
    assert failure_of(caught) == failure
    apology = build_stream_failure_response("openai", error, "model")
    if isinstance(error, openai.APIError | anthropic.APIError):  # of others, fast-agent makes no answer
        assert failure_in(apology) == (failure and failure._replace(provider="openai"))
    assert failure_of(CallError("no answer", failure_in(apology))) == failure_in(apology)


@pytest.mark.parametrize(
    ("provider", "name"), [(Provider.RESPONSES, "openai"), (Provider.GENERIC, "generic"), ("nobody's", None)]
)
def test_an_apology_names_the_provider(provider: Provider | str, name: str | None) -> None:
    """As health names it, which is by the API."""
    failure = failure_in(build_stream_failure_response(provider, answered(503), "model"))
    assert failure == ModelFailure("HTTP 503", lasting=False, provider=name)


def test_a_refused_key_as_fast_agent_says_it() -> None:
    error = ProviderKeyError("Invalid API key", "sk-secret")
    assert failure_of(error) == ModelFailure("the API key is not accepted", lasting=True)
    error.__cause__ = answered(401)
    assert failure_of(error) == REFUSED
    assert failure_of(AgentConfigError("no such child")) is None


def test_a_key_that_is_missing_is_told_by_its_variable() -> None:
    error = ProviderKeyError("Failed to initialize Google GenAI client.", "of another exception")
    error.__cause__ = ProviderKeyError(
        "Google API key not configured", "… or set the GOOGLE_API_KEY variable."
    )
    assert failure_of(error) == ModelFailure(
        "no API key is configured: set GOOGLE_API_KEY in .env", lasting=True
    )


def test_googles_errors_are_not_all_of_the_key() -> None:
    """fast-agent makes an error of the key of each of them."""
    for status, failure in ((401, REFUSED), (429, ModelFailure("HTTP 429", lasting=False)), (400, None)):
        error = ProviderKeyError(f"Google API Error: {status}", "set the SK_API_KEY")
        error.__cause__ = google.APIError(status, {"error": {"message": "sk-secret", "status": "X"}})
        assert failure_of(error) == failure


def test_an_answer_says_nothing_bad() -> None:
    assert failure_in(PromptMessageExtended(role="assistant", content=[])) is None
