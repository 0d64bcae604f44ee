from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from pallas_gateway.http.pages.view.messages import conversation, without_images
from pallas_gateway.store.conversations.records import REPLACED, Message, Row, ToolCall

if TYPE_CHECKING:
    from pallas_gateway.store.conversations.records import Status

NOW = dt.datetime(2026, 3, 12, 10, 0, tzinfo=dt.UTC)


def message(
    index: int, role: str, content: Any, *, turn: str = "t1", status: Status = "complete", **more: Any
) -> Message:
    error = more.pop("error", None)
    row = Row(role=role, content=content, **more)
    return Message(turn_index=index, turn=turn, row=row, status=status, error=error, created=NOW)


def shown(*messages: Message, running: str | None = None) -> str:
    return conversation(messages, thread="th", agent="Jarvis", running=running)


def test_an_answer_with_a_call_is_one_article() -> None:
    html = shown(
        message(0, "user", "What is 2 + 3?"),
        message(1, "assistant", "Let me see.", tool_calls=(ToolCall("c1", "sums__add", '{"a": 2}'),)),
        message(2, "tool", "5", tool_call_id="c1"),
        message(3, "assistant", "It is **5**."),
    )
    assert html.count("<article") == 2
    assert 'id="m0"' in html
    assert 'id="m1"' in html
    assert html.index("Let me see.") < html.index("sums__add") < html.index("<strong>5</strong>")
    assert "&quot;a&quot;: 2" in html or '"a": 2' in html
    assert 'class="state is-ok">done' in html


def test_what_a_person_wrote_means_nothing() -> None:
    html = shown(message(0, "user", "<b>*not*</b>\n\x00line"))
    assert "&lt;b&gt;*not*&lt;/b&gt;\n\ufffdline" in html


def test_images_are_fetched_by_their_place() -> None:
    parts = [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    ]
    html = shown(message(4, "user", parts))
    assert 'src="chat/image?thread=th&amp;index=4&amp;part=1"' in html
    assert "AAAA" not in html


def test_what_images_hold_is_not_part_of_a_page() -> None:
    parts = [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
    ]
    whole = message(4, "user", parts)
    light = without_images(whole)
    assert "base64" not in str(light)
    assert shown(light) == shown(whole)


def test_a_failed_answer_says_why() -> None:
    html = shown(
        message(0, "user", "Hello"),
        message(1, "assistant", "I beg", status="error", error="the model's provider is <away>"),
    )
    assert "I beg" in html
    assert "There is no whole answer: the model&#x27;s provider is &lt;away&gt;" in html.replace(
        "'", "&#x27;"
    )
    stopped = shown(message(1, "assistant", "I", status="error", error="stopped"))
    assert "You stopped this answer." in stopped


def test_an_answer_that_was_replaced_is_folded() -> None:
    html = shown(
        message(0, "user", "Hello"),
        message(1, "assistant", "Old.", status="error", error=REPLACED),
        message(2, "assistant", "New.", turn="t2"),
    )
    assert html.index("An earlier answer") < html.index("Old.") < html.index("New.")
    assert "There is no whole answer" not in html


def test_what_is_spoken_now_comes_another_way() -> None:
    html = shown(
        message(0, "user", "Hello", turn="t9"),
        message(1, "assistant", "I am", turn="t9", status="pending"),
        running="t9",
    )
    assert "Hello" in html
    assert "I am" not in html


def test_a_call_without_an_end_is_said_so() -> None:
    html = shown(
        message(
            1, "assistant", "", tool_calls=(ToolCall("c1", "a__b", "no json"),), status="error", error="x"
        ),
        message(2, "tool", "", tool_call_id="c1", status="error", error="x"),
    )
    assert "not finished" in html
    assert "no json" in html


def test_an_answer_that_is_no_whole_one_says_so() -> None:
    call = ToolCall("c1", "sums__add", "{}")
    assert "without a word" in shown(message(0, "user", "x"), message(1, "assistant", ""))
    rounds = (message(1, "assistant", "", tool_calls=(call,)), message(2, "tool", "5", tool_call_id="c1"))
    assert "limit of rounds" in shown(message(0, "user", "x"), *rounds)
    assert 'class="failure"' not in shown(*rounds, message(3, "assistant", "5"))


def test_an_answer_to_a_part_of_the_conversation_says_so() -> None:
    assert "has not seen its oldest 3 turns" in shown(
        message(1, "assistant", "5", state={"turns_left_out": 3})
    )
    for wrong in ({}, {"turns_left_out": True}, {"turns_left_out": "<b>"}, None):
        assert "has not seen" not in shown(message(1, "assistant", "5", state=wrong))
