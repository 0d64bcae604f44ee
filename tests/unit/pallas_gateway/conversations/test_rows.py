"""Rows as messages and back, and what is known of a turn's rows while it runs."""

from __future__ import annotations

from typing import Any

import pytest

from pallas_gateway.conversations.events import Reset, Text, ToolCall, ToolResult
from pallas_gateway.conversations.rows import Draft, message_of, row_of
from pallas_gateway.store.conversations.records import Row

MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": "a"},
    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]},
    {"role": "assistant", "content": ""},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "s__t", "arguments": '{"a":  1}'}}
        ],
        "pallas": {"channels": {"x": ["y"]}},
    },
    {"role": "tool", "tool_call_id": "1", "content": "5"},
    {"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "x"}], "is_error": True},
]


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_comes_back_as_it_was(message: dict[str, Any]) -> None:
    assert message_of(row_of(message)) == message


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"role": "system", "content": "a"},
        {"role": ["user"], "content": "a"},
        {"role": "user", "content": {"a": 1}},
        {"role": "user", "content": ["a"]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "a"}}]},
        {"role": "assistant", "content": None, "tool_calls": ["a"]},
    ],
)
def test_what_nobody_could_read_again_is_none(message: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="message"):
        row_of(message)


def test_what_a_client_adds_is_not_taken_for_ours() -> None:
    row = row_of({"role": "user", "content": "a", "pallas": {"x": 1}, "tool_calls": [1], "is_error": True})
    assert row == Row(role="user", content="a")


def shown(rows: list[Row]) -> list[tuple[str, object, int]]:
    return [(row.role, row.content, len(row.tool_calls)) for row in rows]


def test_rounds_settle_when_all_their_calls_have_answered() -> None:
    draft = Draft()
    assert shown(draft.pending) == [("assistant", "", 0)]
    draft.take(Text("Let me"))
    assert draft.take(ToolCall("s__t", {"a": 1}, "1", "jarvis"))
    assert draft.take(ToolCall("s__u", {}, "2", "jarvis"))
    assert draft.take(ToolResult("s__u", False, "2", "jarvis", "no"))
    assert not draft.settled
    assert shown(draft.pending) == [("assistant", "Let me", 2), ("tool", "", 0), ("tool", "no", 0)]
    assert [row.is_error for row in draft.pending] == [False, False, True]
    assert draft.take(ToolResult("s__t", True, "1", "jarvis", "5"))
    assert not draft.settled, "the model may call more"
    draft.take(Text("\n\nSo"))
    assert shown(draft.settled) == [("assistant", "Let me", 2), ("tool", "5", 0), ("tool", "no", 0)]
    assert shown(draft.pending) == [("assistant", "So", 0)]


def test_calls_of_agents_below_are_no_part_of_the_conversation() -> None:
    draft = Draft()
    assert draft.take(ToolCall("agent__child", {}, "1", "jarvis"))
    assert not draft.take(ToolCall("s__t", {}, "2", "child"))
    assert not draft.take(ToolResult("s__t", True, "2", "child"))
    assert not draft.take(ToolResult("s__t", True, "9", "jarvis"))
    assert shown(draft.pending) == [("assistant", "", 1), ("tool", "", 0)]


def test_text_that_is_taken_back_is_not_there() -> None:
    draft = Draft()
    for piece in ("one ", "two"):
        draft.take(Text(piece))
    draft.take(Reset(5))
    draft.take(Text("!"))
    draft.take(Reset(0))
    assert shown(draft.pending) == [("assistant", "on!", 0)]
    draft.take(Reset(50))
    assert shown(draft.pending) == [("assistant", "", 0)]
