"""What providers need again of their answers: kept of fast-agent's channels, believed where it fits the row."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fast_agent.constants import (
    ANTHROPIC_ASSISTANT_RAW_CONTENT,
    ANTHROPIC_CONTAINER_CHANNEL,
    ANTHROPIC_SERVER_TOOLS_CHANNEL,
    ANTHROPIC_THINKING_BLOCKS,
    FAST_AGENT_USAGE,
    OPENAI_ASSISTANT_MESSAGE_ITEMS,
    OPENAI_COMPACTION_ITEMS,
    OPENAI_REASONING_ENCRYPTED,
    REASONING,
)
from fast_agent.llm.provider.openai.compaction_replay import capture_compaction_replay
from mcp_types import ImageContent, TextContent

from pallas_worker.agent.messages.channels import kept_channels, restored_channels
from pallas_worker.interface.history import Row
from pallas_worker.interface.tool_calls import ToolCall

CALL = ToolCall("1", "add", {"a": 1})
THINKING = {"type": "thinking", "thinking": "x", "signature": "y"}
TEXT = {"type": "text", "text": "hello"}
CHECKPOINT = capture_compaction_replay(
    {"type": "compaction", "id": "x", "encrypted_content": "y"}, origin="openai"
)
TOOL_USE = {"type": "tool_use", "id": "1", "name": "add", "input": {"a": 1}}


def block(text: str) -> TextContent:
    return TextContent(type="text", text=text)


def row(name: str, *payloads: object) -> Row:
    texts = tuple(payload if isinstance(payload, str) else json.dumps(payload) for payload in payloads)
    return Row("assistant", "hello", calls=(CALL,), channels={name: texts})


def test_only_what_a_provider_reads_again_is_kept() -> None:
    image = ImageContent(type="image", data="", mime_type="image/png")
    channels: dict[str, list[Any]] = {
        REASONING: [block("a"), image, block("b")],
        FAST_AGENT_USAGE: [block("{}")],
    }
    assert kept_channels(channels) == {REASONING: ("a", "b")}
    assert kept_channels(None) == {}


@pytest.mark.parametrize(
    ("whole", "contained"),
    [
        (
            ANTHROPIC_ASSISTANT_RAW_CONTENT,
            (REASONING, ANTHROPIC_THINKING_BLOCKS, ANTHROPIC_SERVER_TOOLS_CHANNEL),
        ),
        (OPENAI_REASONING_ENCRYPTED, (REASONING,)),
    ],
)
def test_nothing_is_kept_twice(whole: str, contained: tuple[str, ...]) -> None:
    channels = {name: [block("{}")] for name in (whole, *contained)}
    assert kept_channels(channels) == {whole: ("{}",)}


@pytest.mark.parametrize(
    ("name", "payloads"),
    [
        (REASONING, ["any words"]),
        (ANTHROPIC_ASSISTANT_RAW_CONTENT, [THINKING, TEXT, TOOL_USE]),
        (ANTHROPIC_ASSISTANT_RAW_CONTENT, [{"type": "web_search_tool_result"}, TEXT, TOOL_USE]),
        (ANTHROPIC_THINKING_BLOCKS, [THINKING, {"type": "redacted_thinking", "data": "x"}]),
        (ANTHROPIC_CONTAINER_CHANNEL, [{"id": "x"}]),
        (OPENAI_COMPACTION_ITEMS, [CHECKPOINT]),
        (OPENAI_REASONING_ENCRYPTED, [{"schema": "x", "version": 1, "item": {}}]),
        (
            OPENAI_ASSISTANT_MESSAGE_ITEMS,
            [{"type": "message", "content": [{"type": "output_text", "text": "hello"}]}],
        ),
    ],
)
def test_what_fits_the_row_is_restored(name: str, payloads: list[Any]) -> None:
    given = row(name, *payloads)
    channels, reason = restored_channels(given)
    assert reason is None
    assert kept_channels(channels) == given.channels


@pytest.mark.parametrize(
    ("name", "payloads", "reason"),
    [
        (FAST_AGENT_USAGE, ["{}"], "has 'fast-agent-usage', which is no channel of a provider"),
        (ANTHROPIC_THINKING_BLOCKS, ["x"], "anthropic-thinking-raw is not JSON: *"),
        (ANTHROPIC_THINKING_BLOCKS, [[]], "anthropic-thinking-raw must be a JSON object"),
        (ANTHROPIC_THINKING_BLOCKS, [TEXT], "anthropic-thinking-raw is not what this row says"),
        (ANTHROPIC_CONTAINER_CHANNEL, [{"id": 7}], "anthropic-container is not what this row says"),
        (OPENAI_COMPACTION_ITEMS, [{"item": {"type": "compaction"}}], "openai-compaction-items is not *"),
        (OPENAI_COMPACTION_ITEMS, [{}], "openai-compaction-items is not what this row says"),
        *(
            (ANTHROPIC_ASSISTANT_RAW_CONTENT, payloads, "anthropic-assistant-raw-content is not what *")
            for payloads in (
                [TEXT],
                [TEXT, TOOL_USE, TOOL_USE],
                [TEXT, TOOL_USE | {"name": "delete"}],
                [TEXT, TOOL_USE | {"input": {"a": 2}}],
                [TEXT | {"text": "other words"}, TOOL_USE],
                [TEXT, TOOL_USE, {"type": "document", "source": {"type": "url", "url": "https://elsewhere"}}],
                [TEXT, TOOL_USE, {"type": "tool_result", "tool_use_id": "1"}],
                [TEXT, TOOL_USE, {"type": ["text"]}],
                [TEXT | {"citations": ["x"]}, TOOL_USE],
                [TEXT | {"citations": "x"}, TOOL_USE],
                [TEXT, TOOL_USE, {"type": "web_search_tool_result", "content": ["x"]}],
                [TEXT, TOOL_USE, {"type": "web_search_tool_result", "content": "x"}],
                [TEXT, TOOL_USE, {"type": "web_search_tool_result", "content": {"a": 1}}],
            )
        ),
        *(
            (OPENAI_ASSISTANT_MESSAGE_ITEMS, [item], "openai-assistant-message-items is not what *")
            for item in (
                {"type": "message", "content": [{"type": "output_text", "text": "other words"}]},
                {"type": "message", "content": [{"type": "input_image", "image_url": "https://elsewhere"}]},
                {"type": "message", "content": "hello"},
                {"type": "function_call_output"},
            )
        ),
    ],
)
def test_anything_else_is_left_out_with_all_that_came_with_it(
    name: str, payloads: list[Any], reason: str
) -> None:
    given = row(name, *payloads)
    given = Row("assistant", "hello", calls=(CALL,), channels={REASONING: ("x",), **given.channels})
    channels, said = restored_channels(given)
    assert channels == {}
    assert (said or "").removeprefix("pallas.channels").lstrip(". ").startswith(reason.rstrip("*"))
