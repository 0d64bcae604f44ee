"""A conversation as text, and its end."""

from __future__ import annotations

from typing import Any

from pallasctl.verbs.talk.chat.transcript import REPLACED, SHOWN, as_text, last_messages

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def message(role: str, content: str, status: str = "complete", **fields: Any) -> dict[str, Any]:
    return {"role": role, "content": content, "status": status, **fields}


def test_rows_of_chat_completions_as_text() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "tools__add", "arguments": '{"a": 2}'}}
    rows: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "text", "text": "look"}, IMAGE]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "5"},
        {"role": "tool", "tool_call_id": "2", "content": "no", "is_error": True},
        {"role": "assistant", "content": "It is 5."},
    ]
    assert as_text("jarvis", rows).split("\n\n") == [
        "you: look [image/png]",
        '[tools__add {"a": 2}]',
        "[result: 5]",
        "[failed: no]",
        "jarvis: It is 5.\n",
    ]


def test_rows_of_send_message_as_text() -> None:
    image = {"data": "AAAA", "mime_type": "image/png"}
    rows: list[dict[str, Any]] = [
        {"role": "user", "content": "look", "images": [image]},
        {"role": "assistant", "content": "nice", "images": []},
    ]
    assert as_text("jarvis", rows) == "you: look [image/png]\n\njarvis: nice\n"


def test_the_end_of_a_thread() -> None:
    messages = [message(role, f"{role} {number}") for number in range(10) for role in ("user", "assistant")]
    messages.insert(-1, message("tool", "a result"))
    lines, is_pending = last_messages(messages, "jarvis")
    assert not is_pending
    assert lines[0] == f"({20 - SHOWN} earlier messages: /save FILE writes all of them)"
    assert lines[-2:] == ["> user 9", "jarvis: assistant 9"]
    assert len(lines) == SHOWN + 1


def test_a_turn_that_failed_and_one_that_is_under_way() -> None:
    messages = [
        message("user", "before", "error", error=REPLACED),
        message("user", "one"),
        message("assistant", "half", "error", error="stopped"),
        message("user", "two\nlines" + "\nmore" * 50, "complete", parts=[IMAGE]),
        message("assistant", "let me", "pending"),
    ]
    lines, is_pending = last_messages(messages, "jarvis")
    assert is_pending
    assert lines[:5] == ["> one", "jarvis: half", "(stopped)", "> two [image/png]", "lines"]
    assert (lines[-1], "let me" in "\n".join(lines)) == ("…", False)
    assert last_messages([*messages, message("user", "three")], "jarvis")[1] is False
