"""What streams of the gateway and of a worker say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pallas_control.mcp.errors import CallError, WrongAnswerError
from pallasctl.verbs.talk.backends import gateway_stream, worker_stream
from pallasctl.verbs.talk.backends.backend import Aside, Reset, Result, Text, ThreadInfo, ToolCall, ToolResult
from pallasctl.verbs.talk.backends.gateway_stream import (
    TurnFailedError,
    is_thread_id,
    read_result,
    row_of,
    title_of,
)
from pallasctl.verbs.talk.backends.worker_stream import TurnEnd, Usage, calls_of


def data(document: Any) -> bytes:
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("chunk", "event"),
    [
        ({"type": "text", "delta": "a"}, Text("a")),
        ({"type": "reset", "characters": 3}, Reset(3)),
        ({"type": "tool_call", "toolName": "a__b", "args": {"x": 1}}, ToolCall("a__b", {"x": 1})),
        ({"type": "tool_result", "toolName": "a__b", "ok": True}, ToolResult("a__b", ok=True)),
        ({"type": "tool_result", "toolName": "a__b", "ok": "yes"}, ToolResult("a__b", ok=False)),
        ({"type": "final", "threadId": "t", "turnIndex": 3}, Result("said", thread="t", turn_index=3)),
        ({"type": "another", "x": 1}, None),
        ({"type": "text", "delta": 5}, None),
        ({"type": "reset", "characters": -3}, None),
        ({}, None),
    ],
)
def test_a_chunk_of_the_gateway(chunk: Any, event: object) -> None:
    assert gateway_stream.read_chunk(data(chunk), "said") == event


@pytest.mark.parametrize("wrong", [b"", b"[1]", b"{", b"[" * 2_000_000])
def test_what_is_no_chunk(wrong: bytes) -> None:
    with pytest.raises(WrongAnswerError):
        gateway_stream.read_chunk(wrong, "")
    with pytest.raises(WrongAnswerError):
        list(worker_stream.read_chunk(wrong))


@pytest.mark.parametrize(("message", "said"), [("it broke", "it broke"), (5, "the turn has failed")])
def test_a_turn_that_fails(message: object, said: str) -> None:
    with pytest.raises(TurnFailedError) as failed:
        gateway_stream.read_chunk(data({"type": "error", "message": message}), "")
    assert failed.value.message == said


def test_a_whole_answer() -> None:
    document: dict[str, Any] = {
        "threadId": "t",
        "turnIndex": 3,
        "content": "5",
        "toolCalls": [{"id": "1"}, 5],
    }
    assert read_result({**document, "usage": {"total_tokens": 9}}) == Result(
        "5", [{"id": "1"}], {"total_tokens": 9}, "t", 3
    )
    assert read_result({**document, "usage": None}).usage is None
    with pytest.raises(WrongAnswerError):
        read_result({"threadId": "t"})


def test_a_thread() -> None:
    found = gateway_stream.read_thread({"id": "a-1", "title": "Sums", "lastTurnAt": None})
    assert found == ThreadInfo("a-1", "Sums", None)
    for wrong in ({"id": "../x"}, {"id": 5}, "a-1", {}):
        with pytest.raises(WrongAnswerError):
            gateway_stream.read_thread(wrong)


@pytest.mark.parametrize(
    ("text", "good"), [("a-1", True), ("", False), ("a/b", False), ("é", False), ("a" * 65, False)]
)
def test_an_id_of_a_thread(text: str, good: bool) -> None:
    assert is_thread_id(text) is good


def test_a_message_as_a_row() -> None:
    call = {"id": "1", "name": "a__b", "arguments": {"x": 1}}
    message: dict[str, Any] = {"role": "assistant", "content": "", "status": "complete", "toolCalls": [call]}
    assert row_of(message) == {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "a__b", "arguments": '{"x": 1}'}}
        ],
    }
    result = {"role": "tool", "content": "no", "status": "complete", "toolCallId": "1", "isError": True}
    assert row_of(result) == {"role": "tool", "content": "no", "tool_call_id": "1", "is_error": True}
    assert row_of({**message, "status": "error"}) is None


@pytest.mark.parametrize(
    ("text", "title"), [("\n  one\ntwo", "one"), ("a\x1bb", "a b"), ("x" * 100, "x" * 79 + "…"), ("\n", "")]
)
def test_a_title(text: str, title: str) -> None:
    assert title_of(text) == title


@pytest.mark.parametrize(
    ("chunk", "events"),
    [
        ({"choices": [{"delta": {"content": "a"}}]}, [Text("a")]),
        ({"choices": [{"delta": {"content": ""}}]}, []),
        ({"choices": []}, []),
        ({"choices": [], "usage": {"total_tokens": 3}}, [Usage({"total_tokens": 3})]),
        ({"pallas": {"type": "tool_call", "tool": "a__b", "arguments": {}}}, [ToolCall("a__b", {})]),
        (
            {"pallas": {"type": "tool_result", "tool": "a__b", "ok": True, "text": "5"}},
            [ToolResult("a__b", ok=True, text="5")],
        ),
        ({"pallas": {"type": "retry", "of": "answer", "characters": 4}}, [Reset(4)]),
        ({"pallas": {"type": "retry", "of": "reasoning", "characters": 4}}, []),
        (
            {"pallas": {"type": "turn", "messages": [{"a": 1}], "ignored": ["top_k", 5]}},
            [TurnEnd([{"a": 1}], ["top_k"])],
        ),
        ({"pallas": {"type": "reasoning"}}, []),
    ],
)
def test_a_chunk_of_a_worker(chunk: Any, events: list[object]) -> None:
    assert list(worker_stream.read_chunk(data(chunk))) == events


def test_an_answer_that_was_cut_off() -> None:
    turn = {"type": "turn", "messages": [], "status": "incomplete", "reason": "max_tokens"}
    [told, _] = worker_stream.read_chunk(data({"pallas": turn}))
    [same] = gateway_stream.read_ending(turn)
    assert isinstance(told, Aside)
    assert told == same
    assert "cut off" in told.text
    assert list(gateway_stream.read_ending({"reason": "of another version"})) == []


@pytest.mark.parametrize(
    ("error", "said"),
    [({"message": "no"}, "no"), ({}, "an error without a message"), ("x", "an error without a message")],
)
def test_an_error_of_a_worker(error: object, said: str) -> None:
    with pytest.raises(CallError) as failed:
        list(worker_stream.read_chunk(data({"error": error})))
    assert failed.value.message == said


@pytest.mark.parametrize("messages", [None, 5, [5]])
def test_a_turn_that_does_not_say_what_is_to_be_kept(messages: object) -> None:
    with pytest.raises(WrongAnswerError):
        list(worker_stream.read_chunk(data({"pallas": {"type": "turn", "messages": messages}})))


def test_calls_of_rows() -> None:
    def call(arguments: str) -> dict[str, Any]:
        return {"id": "1", "type": "function", "function": {"name": "a__b", "arguments": arguments}}

    rows: list[dict[str, Any]] = [
        {"role": "user"},
        {"role": "assistant", "tool_calls": [call('{"x": 1}'), call("[1]"), call("{"), 5]},
    ]
    assert [found["arguments"] for found in calls_of(rows)] == [{"x": 1}, "[1]", "{"]
