"""Chat requests that are sent with less work are what the SDK makes of them, and long ones are not gone through."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from fast_agent.llm.provider.openai import llm_openai
from openai import omit
from openai._utils import async_maybe_transform
from openai.resources.chat.completions import completions
from openai.types.chat import ChatCompletionMessageFunctionToolCall
from openai.types.chat.completion_create_params import CompletionCreateParams

from pallas_worker.fastagent.streams.plain_requests import lighten_chat_requests, lighter

if TYPE_CHECKING:
    from collections.abc import Iterator

CALL = {"id": "1", "type": "function", "function": {"name": "t", "arguments": "{}"}}
URL = {"type": "image_url", "image_url": {"url": "data:,", "detail": "low"}}
PLAIN: list[dict[str, Any]] = [
    {"role": "system", "content": "x"},
    {"role": "user", "content": [{"type": "text", "text": "x"}, URL]},
    {"role": "assistant", "content": None, "tool_calls": [CALL], "unknown": {"a": [1, 0.5, True]}},
    {"role": "tool", "tool_call_id": "1", "content": "x"},
]
MODEL = ChatCompletionMessageFunctionToolCall.model_validate(CALL)
OTHERS: list[Any] = [
    [{"role": "assistant", "tool_calls": [MODEL]}],
    [{"role": "user", "content": "x", "name": omit}],
    ({"role": "user", "content": "x"},),
]


def body(messages: Any) -> dict[str, Any]:
    return {"model": "m", "messages": messages, "n": omit, "stop": ["x"], "stream": True}


@pytest.mark.parametrize("messages", [PLAIN, [], *OTHERS])
def test_the_same_is_sent(messages: Any) -> None:
    async def made() -> tuple[Any, Any]:
        light = await lighter(async_maybe_transform)(body(messages), CompletionCreateParams)
        return light, await async_maybe_transform(body(messages), CompletionCreateParams)

    light, own = asyncio.run(made())
    assert light == own
    assert list(light) == list(own)


def test_plain_messages_are_not_gone_through() -> None:
    async def own(data: Any, _: Any) -> Any:
        assert data["messages"] == []
        return data

    async def sent() -> Any:
        return await lighter(own)(body(PLAIN), None)

    assert asyncio.run(sent()) == body(PLAIN)


@pytest.fixture
def module() -> Iterator[Any]:
    with mock.patch.object(completions, "async_maybe_transform", async_maybe_transform):
        yield completions


def test_it_is_put_in_its_place_once(module: Any) -> None:
    assert llm_openai.__name__ in sys.modules
    lighten_chat_requests()
    first = module.async_maybe_transform
    lighten_chat_requests()
    assert first is module.async_maybe_transform
    assert first.pallas_own is async_maybe_transform


def test_a_name_that_has_moved_is_told(module: Any, caplog: pytest.LogCaptureFixture) -> None:
    with mock.patch.object(module, "async_maybe_transform", None):
        lighten_chat_requests()
    assert "has moved" in caplog.text
