"""Chat streams that are put together with less work are what the SDK's helper makes of them."""

from __future__ import annotations

import random
from typing import Any

import pytest
from fast_agent.llm.provider.openai import llm_openai
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk

from pallas_worker.fastagent.streams.plain_text import lighten_chat_streams, lighter

HEAD = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m"}


def chunk(*deltas: dict[str, Any], finish: str | None = None, **fields: Any) -> ChatCompletionChunk:
    choices = [
        {"index": index, "delta": delta, "finish_reason": finish} for index, delta in enumerate(deltas)
    ]
    return ChatCompletionChunk.construct(**{**HEAD, "choices": choices, **fields})


FIRST = chunk({"role": "assistant", "content": ""})
CALL = {"index": 0, "id": "call", "type": "function", "function": {"name": "look", "arguments": ""}}
KINDS: list[ChatCompletionChunk] = [
    chunk({"content": "one "}),
    chunk({"content": ""}),
    chunk({"content": "two "}, system_fingerprint="f"),
    chunk({"content": "three", "role": "assistant"}),
    chunk({"content": "more", "reasoning_content": "hm"}),
    chunk({"content": None}),
    chunk({"refusal": "no"}),
    chunk({"tool_calls": [CALL]}),
    chunk({"content": "x"}, {"content": "y"}),
    chunk({"content": "end"}, finish="stop"),
    chunk(usage={"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}),
    chunk({"content": "last"}, usage={"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}),
    chunk({"content": "other"}, service_tier="flex"),
    chunk({"content": "unknown"}, something="new"),
]


def made(state: Any, chunks: list[ChatCompletionChunk]) -> dict[str, Any]:
    for one in chunks:
        state.handle_chunk(one.model_copy(deep=True))
    # Which fields are set to nothing, and which are not set, differs; nobody looks at that.
    completion: dict[str, Any] = state.current_completion_snapshot.model_dump(exclude_none=True)
    return completion


@pytest.mark.parametrize("first", [FIRST, KINDS[0], KINDS[7]], ids=["empty", "text", "call"])
def test_the_same_comes_of_any_chunks(first: ChatCompletionChunk) -> None:
    for seed in range(40):
        chance = random.Random(seed)
        chunks = [first, *chance.choices(KINDS, weights=[9, *([1] * (len(KINDS) - 1))], k=12)]
        assert made(lighter(ChatCompletionStreamState)(), chunks) == made(ChatCompletionStreamState(), chunks)


def test_plain_text_goes_past_the_helper(monkeypatch: pytest.MonkeyPatch) -> None:
    state = lighter(ChatCompletionStreamState)()
    state.handle_chunk(FIRST)
    monkeypatch.setattr(ChatCompletionStreamState, "handle_chunk", None)
    state.handle_chunk(KINDS[0])
    assert state.current_completion_snapshot.choices[0].message.content == "one "


def test_fast_agent_uses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llm_openai, "ChatCompletionStreamState", ChatCompletionStreamState)
    lighten_chat_streams()
    used = vars(llm_openai)["ChatCompletionStreamState"]
    assert issubclass(used, ChatCompletionStreamState)
    assert used is not ChatCompletionStreamState
    lighten_chat_streams()
    assert vars(llm_openai)["ChatCompletionStreamState"] is used
