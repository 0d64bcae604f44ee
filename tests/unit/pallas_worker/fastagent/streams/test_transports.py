"""A provider without WebSockets is asked for one now and then, and not in each call."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from fast_agent.llm.provider.openai.responses import ResponsesLLM

from pallas_worker.fastagent.streams.transports import (
    AGAIN,
    FailedWebSockets,
    remember_failed_websockets,
)


@dataclass
class Llm:
    """What is asked of an LLM."""

    host: str
    configured: str = "auto"

    def _base_url(self) -> str:
        return f"http://{self.host}/v1"


class Hosts:
    """Two of them, a clock, and what fast-agent does by itself."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.failed = FailedWebSockets(lambda: self.now)

    def chosen(self, llm: Llm) -> str:
        return self.failed.choice(lambda llm: str(llm.configured))(llm)

    def fall_back(self, llm: Llm, error: Exception | None = None) -> Any:
        async def own(_: Any, *, text: str) -> str:
            if error is not None:
                raise error
            return text

        return asyncio.run(self.failed.fallback(own)(llm, text="hello"))  # type: ignore[arg-type]


def test_a_host_is_asked_by_http_for_a_while_and_then_tried_again() -> None:
    hosts = Hosts()
    assert hosts.chosen(Llm("one")) == "auto"
    assert hosts.fall_back(Llm("one")) == "hello"
    assert hosts.chosen(Llm("one")) == "sse"
    assert hosts.chosen(Llm("two")) == "auto"
    hosts.now += AGAIN
    assert hosts.chosen(Llm("one")) == "auto"


def test_what_is_configured_stays_so() -> None:
    hosts = Hosts()
    hosts.fall_back(Llm("one"))
    assert hosts.chosen(Llm("one", "websocket")) == "websocket"
    assert hosts.chosen(Llm("one", "sse")) == "sse"


def test_a_host_that_does_not_answer_at_all_is_tried_both_ways() -> None:
    hosts = Hosts()
    with pytest.raises(ConnectionError):
        hosts.fall_back(Llm("one"), ConnectionError())
    assert hosts.chosen(Llm("one")) == "auto"


def test_responses_of_this_version_choose_and_fall_back_there(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_effective_transport", "_run_responses_sse_fallback"):
        own = getattr(ResponsesLLM, name)
        monkeypatch.setattr(ResponsesLLM, name, getattr(own, "__wrapped__", own))
    remember_failed_websockets()
    placed = ResponsesLLM._effective_transport
    assert hasattr(placed, "__wrapped__")
    assert hasattr(ResponsesLLM._run_responses_sse_fallback, "__wrapped__")
    remember_failed_websockets()
    assert ResponsesLLM._effective_transport is placed
