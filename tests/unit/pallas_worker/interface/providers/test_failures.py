"""What an exception of a provider's client says: its kind, its status, when to try again, and what a person reads."""

from __future__ import annotations

import json
from email.utils import formatdate
from time import time
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from fast_agent.core.exceptions import AgentConfigError, ProviderKeyError
from fast_agent.llm.provider.openai.llm_openai import EmptyStreamError
from fast_agent.llm.provider.openai.responses_websocket import ResponsesWebSocketError
from google.genai import errors as google

from pallas_worker.interface.providers.failures import LONGEST_DETAIL, ModelFailure, failure_of
from pallas_worker.interface.providers.kinds import KINDS, Kind

REQUEST = httpx2.Request("POST", "http://llm/v1/chat/completions")


def answered(
    status: int,
    said: str = "sk-secret is wrong",
    body: object = None,
    client: Any = openai,
    **headers: str,
) -> Exception:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    response = httpx2.Response(status, headers=named, request=REQUEST)
    error: Exception = client.APIStatusError(said, response=response, body=body)
    return error


def of_google(status: int, message: str, word: str = "X", **more: object) -> Exception:
    return google.APIError(status, {"error": {"message": message, "status": word, "code": status, **more}})


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (answered(400), "bad_request"),
        (answered(401), "key_refused"),
        (answered(401, client=anthropic), "key_refused"),
        (answered(402), "credit"),
        (answered(403), "forbidden"),
        (answered(404), "not_found"),
        (answered(408), "timeout"),
        (answered(413), "context_length"),
        (answered(418), "bad_request"),
        (answered(429), "rate_limit"),
        (answered(500), "failed"),
        (answered(503), "overloaded"),
        (answered(529, client=anthropic), "overloaded"),
        (answered(429, body={"code": "insufficient_quota"}), "credit"),
        (answered(429, "You exceeded your current quota", {"code": "rate_limit_exceeded"}), "credit"),
        (answered(429, "Request too large for gpt-4o: tokens per min", {"type": "tokens"}), "rate_limit"),
        (answered(400, body={"code": "content_filter"}), "content_filter"),
        (answered(400, body={"innererror": {"code": "ResponsibleAIPolicyViolation"}}), "content_filter"),
        (answered(403, "Your input was flagged: requires moderation"), "content_filter"),
        (answered(500, body={"error": {"code": "server_is_overloaded"}}), "overloaded"),
        (openai.ContentFilterFinishReasonError(), "content_filter"),
        (openai.APIConnectionError(request=REQUEST), "unreachable"),
        (anthropic.APITimeoutError(request=REQUEST), "timeout"),
        (httpx2.RemoteProtocolError("peer closed connection"), "broken_off"),
        (openai.APIError("overloaded", REQUEST, body={"code": "503", "message": "x"}), "overloaded"),
        (openai.APIError("the stream says so", REQUEST, body={"code": "server_error"}), "failed"),
        (of_google(400, "API key not valid. Please pass a valid API key."), "key_refused"),
        (of_google(429, "slow down", "RESOURCE_EXHAUSTED"), "rate_limit"),
        (EmptyStreamError("no chunks"), "empty"),
        (ResponsesWebSocketError("no", status=401), "key_refused"),
        (TimeoutError("no stream"), "timeout"),
        (ConnectionResetError("gone"), "unreachable"),
    ],
)
def test_the_kind(error: Exception, kind: Kind) -> None:
    failure = failure_of(error)
    assert failure is not None
    assert failure.kind == kind
    wrapped = RuntimeError("of a workflow")
    wrapped.__cause__ = ExceptionGroup("several", [error])
    assert failure_of(wrapped) == failure


@pytest.mark.parametrize(
    "error",
    [
        answered(400, body={"code": "context_length_exceeded"}),
        answered(
            400, "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens."
        ),
        answered(
            400,
            "Error code: 400",
            {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long"}},
            anthropic,
        ).with_traceback(None),
        answered(400, "prompt is too long: 210000 tokens > 200000 maximum", client=anthropic),
        answered(400, "input length and `max_tokens` exceed context limit: context window exceeded"),
        answered(
            400,
            "the request exceeds the available context size, try increasing it",
            {"code": 400, "type": "exceed_context_size_error"},
        ),
        answered(500, "Error code: 400 - the prompt exceeds the context length of the model"),
        answered(413, client=anthropic),
        of_google(400, "The input token count (1200000) exceeds the maximum number of tokens allowed"),
        answered(400, "Please reduce the length of the messages or completion."),
        ResponsesWebSocketError("no", error_code="context_length_exceeded"),
    ],
    ids=str,
)
def test_a_conversation_that_is_too_long_in_the_words_of_each_provider(error: Exception) -> None:
    failure = failure_of(error)
    assert failure is not None
    assert (failure.kind, failure.row.status, failure.row.code) == (
        "context_length",
        400,
        "context_length_exceeded",
    )


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("a bug"),
        AgentConfigError("no such child"),
        httpx2.InvalidURL("no"),
        FileNotFoundError("a certificate"),
        openai.StreamAlreadyConsumed()
        if hasattr(openai, "StreamAlreadyConsumed")
        else ValueError("not of a provider"),
    ],
    ids=str,
)
def test_what_is_nothing_of_the_providers(error: Exception) -> None:
    assert failure_of(error) is None


def test_googles_errors_are_not_all_of_the_key() -> None:
    """fast-agent makes an error of the key of each of them."""
    for status, kind in ((401, "key_refused"), (429, "rate_limit"), (400, "bad_request")):
        error = ProviderKeyError(f"Google API Error: {status}", "set the SK_API_KEY")
        error.__cause__ = of_google(status, "sk-secret")
        failure = failure_of(error)
        assert failure is not None
        assert (failure.kind, failure.status) == (kind, status)
    alone = failure_of(ProviderKeyError("Invalid API key", "sk-secret"))
    assert alone is not None
    assert (alone.kind, alone.status, alone.reason) == ("key_refused", None, "the API key is not accepted")


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (answered(429, retry_after="7"), 7),
        (answered(503, retry_after="0.2"), 1),
        (answered(429, retry_after="1e9"), None),
        (answered(429, retry_after="99999999"), 24 * 3600),
        (answered(429, retry_after="soon"), None),
        (answered(429, retry_after="Wed, 99 Jan 2026 99:99:99 GMT"), None),
        (answered(429), None),
        (of_google(429, "x", details=[{"retryDelay": "20.5s"}]), 20),
        (ResponsesWebSocketError("no", status=429, headers={"retry-after": "3"}), 3),
    ],
)
def test_how_long_to_wait(error: Exception, seconds: int | None) -> None:
    failure = failure_of(error)
    assert failure is not None
    assert failure.retry_after == seconds


def test_a_moment_to_wait_for() -> None:
    failure = failure_of(answered(429, retry_after=formatdate(time() + 600, usegmt=True)))
    assert failure is not None
    assert failure.retry_after is not None
    assert 0 < failure.retry_after <= 601


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_says_what_has_happened_and_what_to_do(kind: Kind) -> None:
    failure = ModelFailure(kind, 429, "openai", detail="{'error': 'sk-secret'}", host="llm:80")
    what, _, remedy = failure.sentence().partition("; ")
    assert what
    assert remedy
    assert "sk-secret" not in failure.sentence() + failure.reason
    assert "{" not in failure.sentence()
    assert failure.row.status not in (401, 403)  # a client takes these for its own key


def test_a_failure_survives_as_json() -> None:
    failure = failure_of(answered(429, retry_after="7"), provider="openai", host="llm")
    assert failure is not None
    assert ModelFailure(**json.loads(json.dumps(failure._asdict()))) == failure


def test_the_providers_words_are_bounded() -> None:
    failure = failure_of(answered(500, "x" * 100_000))
    assert failure is not None
    assert len(failure.detail) == LONGEST_DETAIL
