"""Whether a model is asked again after a failed request, and what is left where it is not.

fast-agent asks again after every error but a few, with half a minute of waiting, and makes an apology of the last one
that says neither status nor code. Here the kind of the failure decides, and goes along with what fast-agent makes.

Knows fast-agent's LLMs from inside; must not know calls of the worker.
"""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any

from fast_agent.constants import FAST_AGENT_PROVIDER_ERROR
from fast_agent.llm.fastagent_llm import FastAgentLLM
from fast_agent.types import LlmStopReason, PromptMessageExtended
from mcp_types import TextContent

from pallas_common.logs.setup import get_logger
from pallas_worker.fastagent.application import host_of
from pallas_worker.fastagent.current_call import current_call
from pallas_worker.interface.providers.failures import ModelFailure, failure_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_MISTAKES = (TypeError, AttributeError, ValueError, LookupError, RuntimeError, AssertionError)
"""What clients of providers end in where an answer has not the form that they expect."""

_log = get_logger("pallas.worker.models")


def judge_retries() -> None:
    """Let the kind of a failure decide in all LLMs of this process; again, it does nothing more."""
    for name, wrapped in (
        ("_is_fatal_retry_error", _noting),
        ("_is_request_too_large", _final),
        ("_handle_exhausted_retries", _exhausted),
    ):
        own = getattr(FastAgentLLM, name)
        if not hasattr(own, "__wrapped__"):
            setattr(FastAgentLLM, name, wrapped(own))


def failure_in(answer: PromptMessageExtended) -> ModelFailure | None:
    """The failure that an apology of fast-agent's stands for; None for another message."""
    for block in (answer.channels or {}).get(FAST_AGENT_PROVIDER_ERROR, ()):
        try:
            said = json.loads(getattr(block, "text", ""))
            return ModelFailure(**said)
        except (ValueError, TypeError):
            return None
    return None


def _noting(is_fatal: Callable[[Exception], bool]) -> Callable[[Any, Exception], bool]:
    """Every error of a request comes here first."""

    @functools.wraps(is_fatal)
    def note(llm: FastAgentLLM[Any, Any], error: Exception) -> bool:
        provider, host = llm.provider.config_name, host_of(llm)
        failure = failure_of(error, provider=provider, host=host)
        if failure is None and isinstance(error, _MISTAKES):
            _log.warning(f"what the LLM provider at {host} said cannot be read", exc_info=error)
            failure = ModelFailure("unreadable", provider=provider, host=host, detail=type(error).__name__)
        if failure is not None:
            error.model_failure = failure  # type: ignore[attr-defined]
        return is_fatal(error)

    return note


def _final(is_too_large: Callable[[Exception], bool]) -> Callable[[Any, Exception], bool]:
    """The same request again would fail again, or would say again what a reader has read."""

    @functools.wraps(is_too_large)
    def is_final(llm: FastAgentLLM[Any, Any], error: Exception) -> bool:
        failure: ModelFailure | None = getattr(error, "model_failure", None)
        if failure is None or not failure.row.again:  # a mistake of a program does not go away by itself
            return True
        call = current_call()
        return call is not None and not (call.asks_again and call.speech.may_begin_again(llm))

    return is_final


def _exhausted(handle: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """A model that said nothing has answered so; an apology says what it is for."""

    @functools.wraps(handle)
    async def handle_exhausted(llm: FastAgentLLM[Any, Any], error: Exception, on_final_error: Any) -> Any:
        failure: ModelFailure | None = getattr(error, "model_failure", None)
        if failure is not None and failure.kind == "empty":
            return PromptMessageExtended(role="assistant", content=[], stop_reason=LlmStopReason.END_TURN)
        result = await handle(llm, error, on_final_error)
        for one in result if isinstance(result, tuple) else (result,):
            if isinstance(one, PromptMessageExtended) and failure is not None:
                said = TextContent(type="text", text=json.dumps(failure._asdict()))
                one.channels = {**(one.channels or {}), FAST_AGENT_PROVIDER_ERROR: [said]}
        return result

    return handle_exhausted
