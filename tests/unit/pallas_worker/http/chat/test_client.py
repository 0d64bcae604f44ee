"""The body of one request: what is too much for a parser that holds the loop."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

from pallas_common.http.json_bounds import MOST_VALUES
from pallas_worker.http.chat.client import Received, RefusedError, read_object

if TYPE_CHECKING:
    from starlette.types import Message, Scope

SCOPE: Scope = {"type": "http", "method": "POST", "headers": [(b"content-type", b"application/json")]}


def read(body: bytes) -> Received:
    async def receive() -> Message:
        return {"type": "http.request", "body": body}

    return asyncio.run(read_object(SCOPE, receive, 64 * 1024**2))


@pytest.mark.parametrize(
    "body",
    [
        b'{"x":[' + b"[]," * MOST_VALUES + b"1]}",
        b'{"x":[' + b"1," * MOST_VALUES + b"1]}",
        b'{"x":[' + b'"",' * MOST_VALUES + b"1]}",
        b'{"x":[' + b'"\\\\",' * MOST_VALUES + b"1]}",
        b'{"x":[' + b'"\\"",' * MOST_VALUES + b"1]}",
        b"{" + b'"a":{},' * (MOST_VALUES // 2) + b'"b":1}',
        b"[" * (MOST_VALUES + 1),
        b'{"' + b'""' * (3 * MOST_VALUES) + b"," * (2 * MOST_VALUES) + b'"',
    ],
    ids=lambda body: repr(body[:12]),
)
def test_more_values_than_any_conversation_has_are_not_parsed(body: bytes) -> None:
    with pytest.raises(RefusedError) as refused:
        read(body)
    assert (refused.value.error.status, refused.value.error.code) == (413, "request_too_large")


@pytest.mark.parametrize(
    "text", [",[{" * MOST_VALUES, '",' * MOST_VALUES, '\\",' * MOST_VALUES, "\\" * 999_999]
)
def test_texts_have_as_many_commas_as_they_like(text: str) -> None:
    body = json.dumps({"x": text, "y": "z"}).encode()
    assert read(body) == ({"x": text, "y": "z"}, len(body))


def test_the_longest_conversation_is_read() -> None:
    function = {"name": "t", "arguments": "{}"}
    call = {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": function}]}
    rows = [call, {"role": "tool", "tool_call_id": "1", "content": "x"}] * 5000
    assert read(json.dumps({"messages": rows}).encode()).fields == {"messages": rows}
