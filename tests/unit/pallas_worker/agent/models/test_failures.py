"""What a failed call says of its LLM: what a request has noted, or that there is no key to make one with."""

from __future__ import annotations

import httpx2
from fast_agent.core.exceptions import AgentConfigError, ProviderKeyError

from pallas_worker.agent.models.failures import model_failure
from pallas_worker.interface.errors import CallError
from pallas_worker.interface.providers.failures import ModelFailure


def test_what_a_request_has_noted() -> None:
    error = CallError("no answer", ModelFailure("overloaded", 503, "responses"))
    wrapped = RuntimeError("of a workflow")
    wrapped.__cause__ = error
    assert model_failure(wrapped) == ModelFailure("overloaded", 503, "openai")


def test_the_agents_own_requests_say_nothing() -> None:
    assert model_failure(httpx2.ConnectError("a tool's")) is None
    assert model_failure(AgentConfigError("no such child")) is None


def test_a_key_that_is_missing_is_told_by_its_variable() -> None:
    error = ProviderKeyError("Failed to initialize Google GenAI client.", "of another exception")
    error.__cause__ = ProviderKeyError(
        "Google API key not configured", "… or set the GOOGLE_API_KEY variable."
    )
    failure = model_failure(error)
    assert failure is not None
    assert (failure.kind, failure.row.health) == ("key_missing", "lasting")
    assert failure.reason == "no API key is configured: set GOOGLE_API_KEY in .env"
    assert "GOOGLE_API_KEY" in failure.sentence()


def test_a_refused_key_as_fast_agent_says_it() -> None:
    failure = model_failure(ProviderKeyError("Invalid API key", "sk-secret"))
    assert failure is not None
    assert (failure.kind, failure.reason) == ("key_refused", "the API key is not accepted")
