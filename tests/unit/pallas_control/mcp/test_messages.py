"""What is sent, and what is made of a server's messages, whatever it sends."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pallas_control.mcp.errors import RefusedCallError, WrongAnswerError
from pallas_control.mcp.messages import (
    LONGEST_MESSAGE,
    MOST_CONTAINERS,
    Answer,
    ImageDocument,
    Progress,
    Question,
    Row,
    read_message,
    request_body,
)

PNG = ImageDocument(data="AAAA", mime_type="image/png")


def arguments(question: Question) -> dict[str, Any]:
    """Of the call, as the server reads them."""
    sent: dict[str, Any] = json.loads(request_body(question))["params"]["arguments"]
    return sent


def read(**fields: Any) -> Progress | Answer | None:
    """A message of the server."""
    return read_message(json.dumps({"jsonrpc": "2.0", **fields}).encode())


def result(*content: Any, **fields: Any) -> Progress | Answer | None:
    """A result with this content."""
    return read(id=1, result={"content": list(content), **fields})


def progress(**params: Any) -> Progress | Answer | None:
    """A notification of progress."""
    return read(method="notifications/progress", params={"progressToken": 1, "progress": 2, **params})


def test_what_is_not_given_is_not_sent() -> None:
    assert arguments(Question("hi")) == {"message": "hi"}


def test_all_arguments() -> None:
    row = Row(role="user", content="before", images=[PNG])
    assert arguments(Question("hi", [PNG], [row], "c-1")) == {
        "message": "hi",
        "images": [PNG],
        "history": [row],
        "conversation_id": "c-1",
    }


def test_the_answer_is_the_last_text() -> None:
    image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    others = [{"type": "text"}, {"type": "text", "text": 5}, {"type": "audio"}, "x", None, {"type": "image"}]
    answer = result({"type": "text", "text": "first"}, {"type": "text", "text": "last"}, image, *others)
    assert answer == Answer(("first", "last"), (PNG,))
    assert isinstance(answer, Answer)
    assert answer.text == "last"


def test_no_text_is_an_empty_answer() -> None:
    answer = result()
    assert isinstance(answer, Answer)
    assert answer.text == ""


def test_an_error_result() -> None:
    answer = result({"type": "text", "text": "no"}, isError=True)
    assert isinstance(answer, Answer)
    assert answer.is_error


def test_half_a_surrogate_pair_can_be_written() -> None:
    answer = read_message(rb'{"id": 1, "result": {"content": [{"type": "text", "text": "a\ud800b"}]}}')
    assert isinstance(answer, Answer)
    assert answer.text == r"a\ud800b"


def test_progress() -> None:
    assert progress(message="a/b: started") == Progress(2, None, "a/b: started")
    assert progress(total=2) == Progress(2, 2, "")
    assert progress(total="x", message=["y"]) == Progress(2, None, "")
    long = progress(message="x" * 100_000)
    assert isinstance(long, Progress)
    assert len(long.message) == LONGEST_MESSAGE


@pytest.mark.parametrize("params", [{"progressToken": 2}, {"progress": "x"}, {"progress": True}])
def test_progress_of_another_call_or_none(params: dict[str, Any]) -> None:
    assert progress(**params) is None


@pytest.mark.parametrize(
    "message",
    [
        {"method": "notifications/message", "params": {}},
        {"method": "notifications/progress", "params": 5},
        {"id": 1, "method": "sampling/createMessage"},
        {"id": 2, "result": {"content": []}},
    ],
)
def test_what_is_not_about_the_call(message: dict[str, Any]) -> None:
    assert read(**message) is None


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ({"code": -32602, "message": "Unknown tool"}, "Unknown tool"),
        ({"message": " "}, "an error without a message"),
        ("x", "an error without a message"),
        ({"message": 5}, "an error without a message"),
    ],
)
def test_a_json_rpc_error(error: object, said: str) -> None:
    with pytest.raises(RefusedCallError) as refused:
        read(id=1, error=error)
    assert refused.value.message == said


@pytest.mark.parametrize(
    "data", [b"", b"<html>", b"[]", b"[" * 100_000, b'"x"', b"\xff", b'{"id": ' + b"9" * 5000 + b"}"]
)
def test_what_is_no_message(data: bytes) -> None:
    with pytest.raises(WrongAnswerError, match="no JSON-RPC message"):
        read_message(data)


@pytest.mark.parametrize("given", [None, 5, {}, {"content": "x"}])
def test_a_result_of_another_shape(given: object) -> None:
    with pytest.raises(WrongAnswerError, match="no content"):
        read(id=1, result=given)


def test_a_result_that_asks_for_something() -> None:
    with pytest.raises(WrongAnswerError, match="not complete"):
        result(resultType="input_required")


def test_a_message_of_very_many_parts_is_refused_before_it_takes_memory() -> None:
    parts = b"[]," * (MOST_CONTAINERS + 1)
    with pytest.raises(WrongAnswerError, match="more parts"):
        read_message(b'{"jsonrpc": "2.0", "id": 1, "result": {"content": [' + parts + b"0]}}")
