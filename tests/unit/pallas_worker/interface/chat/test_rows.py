"""Rows as messages of chat completions."""

from __future__ import annotations

from typing import Any

from pallas_worker.interface.chat.rows import messages_of
from pallas_worker.interface.history import Row
from pallas_worker.interface.images import Image
from pallas_worker.interface.tool_calls import ToolCall
from support.data.image_data import PNG

URL = f"data:image/png;base64,{PNG}"
PICTURE = Image(PNG, "image/png")


def part() -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": URL}}


def test_rows_as_messages() -> None:
    call = ToolCall("1", "add", {"a": "é"})
    rows = [
        Row("user", "look", (PICTURE,)),
        Row("assistant", "", calls=(call,), channels={"reasoning": ("x",)}),
        Row("tool", "7", call_id="1", is_error=True, parts=("7",)),
        Row("assistant", "seven"),
    ]
    assert messages_of(rows) == [
        {"role": "user", "content": [{"type": "text", "text": "look"}, part()]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"a": "é"}'}}
            ],
            "pallas": {"channels": {"reasoning": ["x"]}},
        },
        {"role": "tool", "tool_call_id": "1", "content": "7", "is_error": True},
        {"role": "assistant", "content": "seven"},
    ]


def test_a_result_is_a_string_where_it_can_be_one() -> None:
    def content(*parts: str | Image) -> object:
        (message,) = messages_of([Row("tool", "", call_id="1", parts=parts)])
        return message["content"]

    assert content() == ""
    assert content("a") == "a"
    assert content("a", "b") == [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert content(PICTURE) == [part()]
