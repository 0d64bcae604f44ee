"""What a worker's stream says, however its bytes are cut; and what a hostile one may not do."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pallas_gateway.conversations import stream_reader
from pallas_gateway.conversations.events import Reset, Text, ToolCall, ToolResult
from pallas_gateway.conversations.stream_reader import (
    StreamReader,
    TurnEnd,
    Usage,
    WorkerError,
    WorkerEvent,
    WrongStreamError,
    read_error,
)


def chunk(delta: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta or {}}], **more}


def framed(*documents: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in documents)


CALL = {"type": "tool_call", "agent": "a", "id": "1", "server": "s", "tool": "s__t", "arguments": {"x": [1]}}
RESULT = {
    "type": "tool_result",
    "agent": "a",
    "id": "1",
    "server": "s",
    "tool": "s__t",
    "ok": True,
    "text": "5",
}
ROWS = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
STREAM = (
    framed(chunk({"role": "assistant", "content": ""}), chunk({"content": "Let\n\nme"}))
    + b": waiting\n\n"
    + framed(
        chunk({"reasoning_content": "hm"}, pallas={"type": "reasoning", "agent": "a"}),
        chunk(pallas=CALL),
        chunk(pallas=RESULT),
        chunk(pallas={"type": "text", "agent": "b", "text": "aside"}),
        chunk(pallas={"type": "retry", "agent": "a", "characters": 3, "of": "answer"}),
        chunk(pallas={"type": "retry", "agent": "a", "characters": 3, "of": "reasoning"}),
        chunk(pallas={"type": "turn", "messages": ROWS, "usage": [], "ignored": []}),
        {"choices": [], "usage": {"total_tokens": 3}},
    )
    + b"data: [DONE]\n\n"
)
EVENTS: list[WorkerEvent] = [
    Text("Let\n\nme"),
    ToolCall("s__t", {"x": [1]}, "1", "a"),
    ToolResult("s__t", True, "1", "a", "5"),
    Reset(3),
    TurnEnd(tuple(ROWS)),
    Usage({"total_tokens": 3}),
]


@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_all_is_read_however_it_is_cut(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(STREAM)]
    reader = StreamReader()
    found: list[WorkerEvent] = []
    for begin, end in pairwise(places):
        found += reader.feed(STREAM[begin:end])
    assert found == EVENTS
    assert reader.is_done


@pytest.mark.parametrize(
    "document",
    [
        [],
        "text",
        None,
        chunk(pallas={"type": "turn", "messages": "rows"}),
        chunk(pallas={"type": "turn", "messages": ["row"]}),
        chunk(pallas={"type": "turn"}),
    ],
)
def test_what_is_no_stream_of_completions_is_refused(document: Any) -> None:
    with pytest.raises(WrongStreamError):
        list(StreamReader().feed(framed(document)))


@pytest.mark.parametrize(
    "text", [b"data: {\n\n", b"data: " + b"[" * 100_000 + b"\n\n", b"data: \xff\xfe\n\n"]
)
def test_what_is_no_json_is_refused(text: bytes) -> None:
    with pytest.raises(WrongStreamError):
        list(StreamReader().feed(text))


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"choices": {}},
        {"choices": [7]},
        {"choices": [{"delta": "x"}], "pallas": [], "usage": 7},
        chunk({"content": {"a": 1}}),
        chunk(pallas={"type": "retry", "of": "answer", "characters": -4}),
        chunk(pallas={"type": "retry", "of": "answer", "characters": True}),
        chunk(pallas={"type": "new"}),
    ],
)
def test_what_has_another_shape_says_nothing(document: dict[str, Any]) -> None:
    assert list(StreamReader().feed(framed(document))) == []


def test_names_are_bounded_and_arguments_are_an_object() -> None:
    said = chunk(pallas={"type": "tool_call", "tool": "x" * 5000, "id": 7, "arguments": "rm -rf"})
    assert list(StreamReader().feed(framed(said))) == [ToolCall("x" * stream_reader.LONGEST_NAME, {}, "", "")]


def test_sizes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_reader, "LARGEST_EVENT", 1000)
    with pytest.raises(WrongStreamError, match="one event"):
        list(StreamReader().feed(b"data: " + b"x" * 2000))
    monkeypatch.setattr(stream_reader, "LARGEST_STREAM", 3000)
    reader = StreamReader()
    for _ in range(5):
        list(reader.feed(framed(chunk({"content": "x" * 500}))))
    with pytest.raises(WrongStreamError, match="too large"):
        list(reader.feed(framed(chunk({"content": "x" * 500}))))


@pytest.mark.parametrize(
    ("pallas", "status", "after"),
    [
        ({"status": 429, "retry_after": 7}, 429, "7"),
        ({"status": 504}, 504, None),
        ({"status": True, "retry_after": "soon"}, 502, None),
        ({"status": 200, "retry_after": -1}, 502, None),
        ([], 502, None),
    ],
)
def test_an_error_in_a_stream_says_what_its_status_would_be(
    pallas: object, status: int, after: str | None
) -> None:
    said = {"error": {"message": "no", "type": "x", "param": None, "code": "x"}, "pallas": pallas}
    assert list(StreamReader().feed(framed(said))) == [WorkerError("no", "x", status, None, after)]


@pytest.mark.parametrize(
    ("document", "status", "expected"),
    [
        (
            {"error": {"message": "bad", "code": "invalid_value", "param": "seed"}},
            400,
            WorkerError("bad", "invalid_value", 400, "seed"),
        ),
        ({"error": {"message": "down", "code": -32000}}, 503, WorkerError("down", "agent_unavailable", 503)),
        ({"error": "down"}, 503, WorkerError("down", "agent_failed", 503)),
        ({}, 500, WorkerError("the agent answered with HTTP status 500", "agent_failed", 500)),
    ],
)
def test_an_error_in_place_of_a_stream(document: dict[str, Any], status: int, expected: WorkerError) -> None:
    assert read_error(document, status) == expected
