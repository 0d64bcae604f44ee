"""The objects of chat completions: answers, chunks, usage, and what OpenAI has no place for."""

from __future__ import annotations

from typing import Any

from mcp_types import ImageContent, TextContent

from pallas_worker.interface.chat.answers import (
    Head,
    chunk_of,
    completion,
    first_chunk,
    last_chunks,
    retry_chunk,
    usage_of,
)
from pallas_worker.interface.history import Row
from pallas_worker.interface.tool_calls import ToolCall
from pallas_worker.interface.turn import (
    Ignored,
    ModelUsage,
    TakenBack,
    Text,
    ToolCalled,
    ToolReturned,
    TurnEvent,
    TurnResult,
)
from support.data.image_data import PNG

HEAD = Head("chatcmpl-1", 1700000000, "demo")
SAID = (TextContent(type="text", text="Let me see."), TextContent(type="text", text="Five."))
IMAGE = ImageContent(type="image", data=PNG, mime_type="image/png")
HELD = TurnResult(
    content=(TextContent(type="text", text=""),),
    rows=(Row("user", "x"), Row("assistant", "", calls=(ToolCall("c1", "add", {"a": 1}),))),
    finish_reason="tool_calls",
)
CALLS = [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}]


def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1700000000,
        "model": "demo",
        "choices": [choice],
    }


def told(event: TurnEvent) -> object:
    document = chunk_of(HEAD, event)
    assert document is not None
    assert document["choices"] == chunk({})["choices"]
    return document["pallas"]


def test_a_whole_answer() -> None:
    result = TurnResult(
        content=SAID,
        rows=(Row("user", "x"), Row("assistant", "Five.")),
        finish_reason="length",
        incomplete="max_tokens",
    )
    assert completion(HEAD, result, ["top_k"]) == {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1700000000,
        "model": "demo",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Let me see.\n\nFive."},
                "logprobs": None,
                "finish_reason": "length",
            }
        ],
        "usage": usage_of(()),
        "pallas": {
            "type": "turn",
            "messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "Five."}],
            "usage": [],
            "ignored": ["top_k"],
            "status": "incomplete",
            "reason": "max_tokens",
        },
    }


def test_the_pieces_of_an_answer() -> None:
    assert first_chunk(HEAD) == chunk({"role": "assistant", "content": ""})
    assert chunk_of(HEAD, Text("a", "x")) == chunk({"content": "x"})
    assert chunk_of(HEAD, Ignored(("top_k",))) is None
    thought = chunk_of(HEAD, Text("a", "hm", "reasoning"))
    assert thought == chunk({"reasoning_content": "hm"}) | {"pallas": {"type": "reasoning", "agent": "a"}}


def test_what_happens_besides() -> None:
    assert told(Text("a", "x", "other")) == {"type": "text", "agent": "a", "text": "x"}
    call = {"agent": "a", "id": "1", "server": None, "tool": "t"}
    assert told(ToolCalled("a", "1", None, "t", {"x": 1})) == {
        "type": "tool_call",
        **call,
        "arguments": {"x": 1},
    }
    returned = ToolReturned("a", "1", None, "t", ok=False, text="no")
    assert told(returned) == {"type": "tool_result", **call, "ok": False, "text": "no"}
    retry = retry_chunk(HEAD, TakenBack("a", 3, "other"))["pallas"]
    assert retry == {"type": "retry", "agent": "a", "characters": 3, "of": "text"}


def test_the_end_of_a_stream() -> None:
    result = TurnResult(content=SAID, usage=[ModelUsage("m", {"input": 1})])
    [last] = last_chunks(HEAD, result, include_usage=False)
    assert last == chunk({}, "stop") | {"pallas": completion(HEAD, result)["pallas"]}
    last_of_two, usage = last_chunks(HEAD, result, include_usage=True)
    assert last_of_two == last
    assert usage == chunk({}) | {"choices": [], "usage": usage_of(result.usage)}


def test_images_of_an_answer() -> None:
    result = TurnResult(content=(IMAGE,))
    images = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}]
    [choice] = completion(HEAD, result)["choices"]  # type: ignore[misc]
    assert choice["message"] == {"role": "assistant", "content": "", "images": images}  # type: ignore[has-type]
    [last] = last_chunks(HEAD, result, include_usage=False)
    assert last["choices"] == chunk({"images": images}, "stop")["choices"]


def test_the_calls_before_which_a_turn_is_held() -> None:
    [choice] = completion(HEAD, HELD)["choices"]  # type: ignore[misc]
    assert choice["message"]["tool_calls"] == CALLS  # type: ignore[has-type]
    assert choice["finish_reason"] == "tool_calls"  # type: ignore[has-type]
    [last] = last_chunks(HEAD, HELD, include_usage=False)
    assert last["choices"] == chunk({"tool_calls": [{"index": 0, **CALLS[0]}]}, "tool_calls")["choices"]


def test_usage_counts_as_openai_does() -> None:
    openai = ModelUsage("gpt", {"input": 100, "output": 20, "cache_hit": 30, "reasoning": 5})
    anthropic = ModelUsage("claude", {"input": 10, "output": 2, "cache_read": 7, "cache_write": 3})
    assert usage_of([openai, anthropic, openai]) == {
        "prompt_tokens": 220,
        "completion_tokens": 42,
        "total_tokens": 262,
        "prompt_tokens_details": {"cached_tokens": 67},
        "completion_tokens_details": {"reasoning_tokens": 10},
    }
    turn: Any = completion(HEAD, TurnResult(content=SAID, usage=[openai, anthropic, openai]))["pallas"]
    assert [(one["model"], one["turns"], one["input"]) for one in turn["usage"]] == [
        ("gpt", 2, 200),
        ("claude", 1, 10),
    ]
