"""Rows as fast-agent's messages, and the messages of a turn as rows."""

from __future__ import annotations

from typing import Any

import pytest
from fast_agent.constants import REASONING
from fast_agent.types import PromptMessageExtended
from mcp_types import (
    AudioContent,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    TextContent,
    TextResourceContents,
)

from pallas_common.protocol.agent.images import MIME_TYPES
from pallas_worker.agent.messages.rows import conversation, exchange_rows, history_messages, turn_rows
from pallas_worker.interface.errors import ArgumentError
from pallas_worker.interface.history import History, Row
from pallas_worker.interface.images import Image
from pallas_worker.interface.tool_calls import ToolCall
from pallas_worker.interface.turn import TurnRequest
from pallas_worker.interface.vision import Vision
from support.data.image_data import PNG

ALL = Vision(frozenset(MIME_TYPES))
NONE = Vision(frozenset())
PICTURE = Image(PNG, "image/png")
IMAGE = ImageContent(type="image", data=PNG, mime_type="image/png")
ROUND = (
    Row("user", "hello"),
    Row("assistant", "Look", calls=(ToolCall("1", "add", {"a": 1}), ToolCall("2", "see", {}))),
    Row("tool", "seven", call_id="1", parts=("seven",)),
    Row("tool", "a\nb", (PICTURE,), call_id="2", is_error=True, parts=("a", PICTURE, "b")),
    Row("assistant", "done", channels={REASONING: ("x",)}),
)


def text(said: str) -> TextContent:
    return TextContent(type="text", text=said)


def says(role: Any, *blocks: Any, **fields: Any) -> PromptMessageExtended:
    content = [text(block) if isinstance(block, str) else block for block in blocks]
    return PromptMessageExtended(role=role, content=content, **fields)


def request(name: str, **arguments: Any) -> CallToolRequest:
    return CallToolRequest(
        method="tools/call", params=CallToolRequestParams(name=name, arguments=arguments or None)
    )


def test_a_round_of_calls_comes_back_as_it_was_told() -> None:
    messages = history_messages(ROUND, ALL)
    assert [message.role for message in messages] == ["user", "assistant", "user", "assistant"]
    assert list(messages[1].tool_calls or {}) == ["1", "2"]
    results = messages[2].tool_results or {}
    assert results["1"] == CallToolResult(content=[text("seven")])
    assert results["2"] == CallToolResult(content=[text("a"), IMAGE, text("b")], is_error=True)
    assert turn_rows(messages) == ROUND


def test_a_call_without_arguments_has_none() -> None:
    calling = says("assistant", tool_calls={"1": request("see")})
    assert turn_rows([calling])[0].calls == (ToolCall("1", "see", {}),)


def test_a_result_is_in_the_words_in_which_the_model_gets_it() -> None:
    resource = TextResourceContents(uri="file:///x", text="inside")
    results = {
        "1": CallToolResult(content=[text("for people"), IMAGE], structured_content={"b": 1, "a": "é"}),
        "2": CallToolResult(
            content=[
                text(""),
                EmbeddedResource(type="resource", resource=resource),
                AudioContent(type="audio", data="", mime_type="audio/wav"),
            ]
        ),
        "3": CallToolResult(content=[]),
    }
    rows = turn_rows([says("user", tool_results=results)])
    assert [row.parts for row in rows] == [
        ('{"a":"é","b":1}', PICTURE),
        ("inside", "[left out: audio]"),
        (),
    ]
    assert [row.content for row in rows] == ['{"a":"é","b":1}', "inside\n[left out: audio]", ""]


def test_results_that_the_history_has_are_not_told_again() -> None:
    results = {id_: CallToolResult(content=[text(id_)]) for id_ in ("1", "2")}
    turn = [
        says("user", tool_results=results),
        says("assistant", tool_calls={"1": request("see")}),
        says("user", tool_results={"1": results["1"]}),
        says("assistant", "done"),
    ]
    history = [Row("tool", "old", call_id="2"), *ROUND[:3]]
    assert [row.call_id for row in turn_rows(turn, history)] == ["2", "", "1", ""]


def test_what_is_empty_is_no_row() -> None:
    assert turn_rows([says("assistant"), says("assistant", "")]) == ()


def test_an_exchange_is_what_was_asked_and_answered() -> None:
    answer = says("assistant", "a", IMAGE, "b", channels={REASONING: [text("x")]})
    assert exchange_rows(says("user", "hello", IMAGE), answer) == (
        Row("user", "hello", (PICTURE,)),
        Row("assistant", "a\nb", (PICTURE,)),
    )


def test_a_turn_goes_on_from_results() -> None:
    history = History(ROUND[:4])
    before, message = conversation(TurnRequest(history=history), ALL)
    assert [said.role for said in before] == ["user", "assistant"]
    assert list(message.tool_results or {}) == ["1", "2"]
    before, message = conversation(TurnRequest(history=history, message="and?"), ALL)
    assert len(before) == 3
    assert message.all_text() == "and?"


@pytest.mark.parametrize("rows", [(), ROUND, ROUND[:3]])
def test_without_results_there_is_nothing_to_go_on_from(rows: tuple[Row, ...]) -> None:
    with pytest.raises(ArgumentError, match="neither a user's message nor"):
        conversation(TurnRequest(history=History(rows)), ALL)


def test_notes_stand_in_place_of_images() -> None:
    rows = [Row("user", "look", (PICTURE,), unreadable=2), Row("tool", "", call_id="1", unreadable=1)]
    said, result = history_messages(rows, NONE)
    assert said.all_text() == (
        "look\n\n[left out, because they cannot be read: 2 images]\n\n"
        "[left out, because the model does not take them: 1 image]"
    )
    note = text("[left out, because they cannot be read: 1 image]")
    assert (result.tool_results or {})["1"].content == [note]


def test_state_that_does_not_fit_costs_no_more_than_that(caplog: pytest.LogCaptureFixture) -> None:
    (message,) = history_messages([Row("assistant", "hi", index=3, channels={"other": ("x",)})], ALL)
    assert message.channels is None
    assert message.all_text() == "hi"
    assert caplog.messages == [
        "history[3] state left out: pallas.channels has 'other', which is no channel of a provider"
    ]
