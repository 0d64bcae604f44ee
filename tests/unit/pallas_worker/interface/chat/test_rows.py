"""Messages of chat completions as rows, and rows as such messages."""

from __future__ import annotations

from typing import Any

import pytest

from pallas_worker.interface.chat.rows import messages_of, parse_user_message, rows_of
from pallas_worker.interface.errors import ArgumentError
from pallas_worker.interface.history import LeftOut, Row
from pallas_worker.interface.images import Image
from pallas_worker.interface.tool_calls import ToolCall
from support.data.image_data import PNG

URL = f"data:image/png;base64,{PNG}"
PICTURE = Image(PNG, "image/png")


def part(url: Any = URL) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def test_instructions_are_no_rows_and_keep_the_others_places() -> None:
    messages = [
        {"role": "system", "content": "x"},
        {"role": "user", "content": "hello"},
        {"role": "developer", "content": "x"},
        {"role": "nobody"},
        {"role": "assistant", "content": "hi"},
    ]
    history = rows_of(messages)
    assert [(row.index, row.content) for row in history.rows] == [(1, "hello"), (4, "hi")]
    assert [fault.index for fault in history.left_out] == [3]


def test_parts_of_a_message() -> None:
    content = [{"type": "text", "text": "a"}, part(), {"type": "text", "text": "b"}]
    (row,) = rows_of([{"role": "user", "content": content}]).rows
    assert row == Row("user", "a\n\nb", (PICTURE,))


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://elsewhere/x.png", "content[0].image_url.url must be a data URL, *"),
        (7, "content[0].image_url.url must be a string, not number"),
        (f"data:image/gif;base64,{PNG}", "content[0].image_url.url is image/png by its content, *"),
        (f"data:text/html;base64,{PNG}", "content[0].image_url.url must be one of *"),
        ("data:image/png;base64,!", "content[0].image_url.url is not base64: *"),
    ],
)
def test_an_image_that_cannot_be_used_costs_a_row_no_more_than_that(url: Any, reason: str) -> None:
    rows, (fault,), _ = rows_of([{"role": "user", "content": [part(url), {"type": "text", "text": "a"}]}])
    assert rows == (Row("user", "a", unreadable=1),)
    assert fault.part == "images"
    assert fault.reason.startswith(reason.rstrip("*"))


def test_a_part_of_another_kind_costs_the_row() -> None:
    rows, left_out, _ = rows_of([{"role": "user", "content": [{"type": "file"}]}])
    assert rows == ()
    reason = (
        'content[0] must be {"type": "text", "text": …} or {"type": "image_url", "image_url": {"url": …}}, '
        "not {'type': 'file'}"
    )
    assert left_out == (LeftOut(0, reason),)


def test_the_new_turn_has_to_be_good() -> None:
    assert parse_user_message({"content": "hello"}, "messages[0]") == ("hello", ())
    assert parse_user_message({"content": [part()]}, "messages[0]") == ("", (PICTURE,))
    for content, reason in (
        (None, "messages[0].content must be a string, not None"),
        ("", "messages[0].content is empty"),
        ([part("x")], "messages[0].content[0].image_url.url must be a data URL, "),
    ):
        with pytest.raises(ArgumentError) as error:
            parse_user_message({"content": content}, "messages[0]")
        assert str(error.value).startswith(reason)
        assert error.value.field == "messages[0].content"


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
