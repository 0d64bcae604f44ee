"""Responses asked by HTTP for a while where their provider has no WebSockets, and not by both in each call.

By its default, fast-agent tries a WebSocket before each request; servers that are compatible with OpenAI's have none. A
failed attempt costs some 10 ms, a connection, and a warning in the log, and its traceback keeps all of the call alive
until Python next looks through everything.

Knows fast-agent's Responses; must not know calls.
"""

from __future__ import annotations

import functools
import sys
import time
from typing import TYPE_CHECKING, Any

from pallas_common.http.reach import is_closed
from pallas_common.logs.setup import get_logger
from pallas_worker.fastagent.application import host_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

AGAIN = 300.0
"""Seconds after which a WebSocket is tried again: an attempt may have failed for another reason."""
_MODULE = "fast_agent.llm.provider.openai.responses"
_CHOICE, _FALLBACK = "_effective_transport", "_run_responses_sse_fallback"

_log = get_logger("pallas.worker.fastagent")


def remember_failed_websockets() -> None:
    """Let all Responses of this process do so; does nothing where that provider is not loaded, nor a second time."""
    module = sys.modules.get(_MODULE)
    if module is None:
        return
    owner = getattr(module, "ResponsesLLM", None)
    choice, fallback = getattr(owner, _CHOICE, None), getattr(owner, _FALLBACK, None)
    if choice is None or fallback is None:
        _log.warning(f"{_MODULE}.{_FALLBACK} has moved: Responses of servers without WebSockets take longer")
    elif not hasattr(choice, "__wrapped__"):
        failed = FailedWebSockets()
        setattr(owner, _CHOICE, failed.choice(choice))
        setattr(owner, _FALLBACK, failed.fallback(fallback))


class FailedWebSockets:
    """Which hosts had none when they were last tried."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._again: dict[str | None, float] = {}
        """Host → when it is tried again; None is the one that the provider's client asks by itself."""

    def choice(self, own: Callable[[Any], str]) -> Callable[[Any], str]:
        """How an LLM's next request goes: as it is configured, but without an attempt that would fail."""

        @functools.wraps(own)
        def effective_transport(llm: Any) -> str:
            chosen = own(llm)
            if is_closed():  # a WebSocket's client may go through a proxy, and shows what refuses it
                return "sse"
            if chosen == "auto" and self._clock() < self._again.get(host_of(llm), 0.0):
                return "sse"
            return chosen

        return effective_transport

    def fallback(self, own: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """What an LLM does after a failed attempt, which is remembered if HTTP does better."""

        @functools.wraps(own)
        async def run_responses_sse_fallback(llm: Any, **request: Any) -> Any:
            result = await own(llm, **request)
            self._again[host_of(llm)] = self._clock() + AGAIN
            return result

        return run_responses_sse_fallback
