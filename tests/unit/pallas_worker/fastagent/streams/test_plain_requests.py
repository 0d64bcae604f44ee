"""Requests that are sent with less work are what the SDK makes of them, and long ones are not gone through."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from fast_agent.llm.provider.openai import llm_openai, responses
from openai import omit
from openai._utils import async_maybe_transform
from openai.resources.chat.completions import completions
from openai.resources.responses import responses as responses_resource
from openai.types.chat import ChatCompletionMessageFunctionToolCall
from openai.types.chat.completion_create_params import CompletionCreateParams
from openai.types.responses import ResponseFunctionToolCall
from openai.types.responses.response_create_params import ResponseCreateParams

from pallas_worker.fastagent.streams.plain_requests import lighten_requests, lighter

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


ITEMS: list[dict[str, Any]] = [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}]},
    {"type": "message", "role": "assistant", "content": "x"},
    {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "x", "unknown": {"a": None}},
    {"type": "function_call", "call_id": "1", "name": "t", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "1", "output": "x"},
]
ITEM = ResponseFunctionToolCall(arguments="{}", call_id="1", name="t", type="function_call")
CASES: list[tuple[str, Any, Any]] = [
    *(("messages", messages, CompletionCreateParams) for messages in (PLAIN, [], *OTHERS)),
    *(
        ("input", items, ResponseCreateParams)
        for items in (ITEMS, [], "x", [ITEM], [{**ITEMS[0], "id": omit}])
    ),
]


def body(field: str, messages: Any) -> dict[str, Any]:
    return {"model": "m", field: messages, "n": omit, "stop": ["x"], "stream": True}


@pytest.mark.parametrize(("field", "messages", "expected"), CASES)
def test_the_same_is_sent(field: str, messages: Any, expected: Any) -> None:
    async def made() -> tuple[Any, Any]:
        light = await lighter(async_maybe_transform, field)(body(field, messages), expected)
        return light, await async_maybe_transform(body(field, messages), expected)

    light, own = asyncio.run(made())
    assert light == own
    assert list(light) == list(own)


@pytest.mark.parametrize(("field", "messages"), [("messages", PLAIN), ("input", ITEMS)])
def test_plain_messages_are_not_gone_through(field: str, messages: Any) -> None:
    async def own(data: Any, _: Any) -> Any:
        assert data[field] == []
        return data

    async def sent() -> Any:
        return await lighter(own, field)(body(field, messages), None)

    assert asyncio.run(sent()) == body(field, messages)


@pytest.fixture(params=[completions, responses_resource])
def module(request: pytest.FixtureRequest) -> Iterator[Any]:
    with mock.patch.object(request.param, "async_maybe_transform", async_maybe_transform):
        yield request.param


def test_it_is_put_in_its_place_once(module: Any) -> None:
    assert {llm_openai.__name__, responses.__name__} <= set(sys.modules)
    lighten_requests()
    first = module.async_maybe_transform
    lighten_requests()
    assert first is module.async_maybe_transform
    assert first.pallas_own is async_maybe_transform


def test_a_name_that_has_moved_is_told(module: Any, caplog: pytest.LogCaptureFixture) -> None:
    with mock.patch.object(module, "async_maybe_transform", None):
        lighten_requests()
    assert "has moved" in caplog.text
