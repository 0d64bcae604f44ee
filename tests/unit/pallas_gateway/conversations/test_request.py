"""Chat requests: what is refused and by which name, and what of them the worker gets."""

from __future__ import annotations

from typing import Any

import pytest

from pallas_gateway.conversations.errors import RequestError
from pallas_gateway.conversations.request import LONGEST_TITLE, field_of, read_request, title_of

IMAGE = "data:image/png;base64,AAAA"


def test_all_parameters_of_the_table_go_on_in_the_words_of_the_worker() -> None:
    body: dict[str, Any] = {
        "message": "hi",
        "temperature": 0.5,
        "top_p": 1,
        "top_k": 3,
        "max_tokens": None,
        "stop": ["a"],
        "presence_penalty": 1,
        "frequency_penalty": -1,
        "seed": 7,
        "response_format": {"type": "json_object"},
        "tool_choice": "auto",
        "tools_allowlist": ["a__b"],
        "systemOverride": "over",
        "systemAppend": "more",
        "extra": {"x": 1},
    }
    request = read_request(body)
    renamed = {"systemOverride": "system_override", "systemAppend": "system_append"}
    assert request.fields == {renamed.get(key, key): value for key, value in body.items() if key != "message"}
    assert request.message == {"role": "user", "content": "hi"}
    assert request.needs_key
    assert not read_request({"message": "hi", "systemAppend": "more", "extra": None}).needs_key


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "message"),
        ({"message": ""}, "message"),
        ({"message": " \n"}, "message"),
        ({"message": 3}, "message"),
        ({"message": "a", "temperature": 2.5}, "temperature"),
        ({"message": "a", "temperature": "1"}, "temperature"),
        ({"message": "a", "top_p": -0.1}, "top_p"),
        ({"message": "a", "top_k": 1.5}, "top_k"),
        ({"message": "a", "max_tokens": 0}, "max_tokens"),
        ({"message": "a", "stop": ["1", "2", "3", "4", "5"]}, "stop"),
        ({"message": "a", "seed": True}, "seed"),
        ({"message": "a", "tool_choice": "sometimes"}, "tool_choice"),
        ({"message": "a", "systemOverride": 1}, "systemOverride"),
        ({"message": "a", "systemAppend": []}, "systemAppend"),
        ({"message": "a", "extra": []}, "extra"),
        ({"message": "a", "onBusy": "queue"}, "onBusy"),
        ({"message": "a", "stream": "yes"}, "stream"),
        ({"message": "a", "threadId": 1}, "threadId"),
        ({"message": "a", "thread_id": "t"}, "thread_id"),
        ({"message": "a", "system_append": "t"}, "system_append"),
        ({"message": "a", "hold": ["*"]}, "hold"),
        ({"message": "a", "tools": [{}]}, "tools"),
        ({"message": "a", "n": 2}, "n"),
        ({"message": "a", "images": IMAGE}, "images"),
        ({"message": "a", "images": ["http://x/y.png"]}, "images[0]"),
        ({"message": "a", "images": [IMAGE] * 21}, "images"),
        ({"messages": []}, "messages"),
        ({"messages": ["a"]}, "messages[0]"),
        ({"messages": [{"role": "user", "content": "a"}], "images": [IMAGE]}, "images"),
        ({"retry": True}, "threadId"),
        ({"retry": True, "threadId": "x", "message": "a"}, "message"),
    ],
)
def test_what_is_wrong_is_refused_by_its_name(body: dict[str, Any], field: str) -> None:
    with pytest.raises(RequestError) as raised:
        read_request(body)
    assert raised.value.field == field
    assert str(raised.value).startswith(field.partition("[")[0])


def test_a_wrong_name_is_told_with_the_one_that_was_meant() -> None:
    with pytest.raises(RequestError, match="did you mean threadId"):
        read_request({"message": "a", "threadid": "t"})


def test_fields_that_nobody_knows_are_named_and_those_that_say_nothing_are_absent() -> None:
    request = read_request(
        {"message": "a", "chat_id": "c", "user": "u", "max_tokens": -1, "stop": [], "tools": [], "extra": {}}
    )
    assert request.ignored == ("chat_id", "user")
    assert request.fields == {"extra": {}}
    assert not request.needs_key


def test_images_are_parts_of_the_new_message() -> None:
    request = read_request({"message": "look", "images": [IMAGE]})
    assert request.message == {
        "role": "user",
        "content": [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": IMAGE}}],
    }


def test_a_whole_conversation_ends_with_the_new_message() -> None:
    messages = [{"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}]
    assert read_request({"messages": messages}).message == messages[1]
    assert read_request({"messages": messages[:1]}).message is None


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (None, None),
        ("system_override", "systemOverride"),
        ("extra.a", "extra.a"),
        ("tools_allowlist[1]", "tools_allowlist[1]"),
        ("messages[4].content", "message"),
        ("messages[4].content[1].image_url.url", "images[0]"),
        ("messages[2].content", "messages[2].content"),
    ],
)
def test_the_workers_complaint_has_the_name_that_the_caller_knows(
    theirs: str | None, ours: str | None
) -> None:
    assert field_of(theirs, 4) == ours


def test_a_title_is_the_first_line_that_says_something() -> None:
    assert title_of("\n  Hello \x1b[31m\nworld") == "Hello  [31m"
    assert title_of("") == ""
    assert len(title_of("x" * 500)) == LONGEST_TITLE
