"""Requests of MCP that stand alone: which they are, and answers that become JSON."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from pallas_common.protocol.mcp import lone_requests
from pallas_common.protocol.mcp.lone_requests import JsonAnswer, may_stand_alone, stands_alone

if TYPE_CHECKING:
    from starlette.types import Message

ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{}}'
NOTE = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"result":1}}'
STREAM = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-request-id", b"r")]


@pytest.mark.parametrize(
    ("headers", "alone"),
    [
        ({}, True),
        ({"accept": "application/json"}, True),
        ({"accept": "*/*"}, True),
        ({"accept": "application/json, text/event-stream"}, False),
        ({"accept": "*/*, Text/Event-Stream;q=0.5"}, False),
        ({"accept": "text/html"}, False),
        ({"accept": ""}, False),
        ({"mcp-protocol-version": "2025-11-25"}, False),
        ({"mcp-session-id": "s"}, False),
    ],
)
def test_a_client_of_the_protocol_is_none_of_them(headers: dict[str, str], alone: bool) -> None:
    assert may_stand_alone(headers) is alone


def test_what_opens_a_session_or_says_a_version_is_none_of_them() -> None:
    assert stands_alone("tools/call", {"_meta": {"progressToken": 1}})
    assert stands_alone("ping", None)
    assert not stands_alone("initialize", {})
    assert not stands_alone(
        "tools/list", {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}
    )


def sent(headers: list[tuple[bytes, bytes]], *pieces: bytes) -> tuple[Message, bytes]:
    found: list[Message] = []

    async def send(message: Message) -> None:
        found.append(message)

    async def run() -> None:
        answer = JsonAnswer(send)
        await answer.send({"type": "http.response.start", "status": 200, "headers": headers})
        for index, piece in enumerate(pieces):
            more = index < len(pieces) - 1
            await answer.send({"type": "http.response.body", "body": piece, "more_body": more})

    asyncio.run(run())
    start, *bodies = found
    return start, b"".join(message["body"] for message in bodies)


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r"])
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_of_a_stream_the_answer_is_sent_however_it_is_cut(end: bytes, size: int) -> None:
    events = end.join((b": ping", b"event: message\ndata: " + NOTE, b"id: 1\ndata: " + ANSWER, b""))
    start, body = sent(STREAM, *(events[at : at + size] for at in range(0, len(events), size)))
    assert body == ANSWER
    assert dict(start["headers"]) == {
        b"content-type": b"application/json",
        b"content-length": str(len(ANSWER)).encode(),
        b"x-request-id": b"r",
    }


def test_what_is_no_stream_is_sent_on_as_it_is() -> None:
    headers = [(b"content-type", b"application/json")]
    assert sent(headers, b"{", b"}") == (
        {"type": "http.response.start", "status": 200, "headers": headers},
        b"{}",
    )


@pytest.mark.parametrize("pieces", [(b"data: " + NOTE + b"\n\n",), (b"data: {\n\n", b"data: 5\n\n")])
def test_a_stream_without_an_answer_is_an_error(pieces: tuple[bytes, ...]) -> None:
    _, body = sent(STREAM, *pieces)
    assert "broke off" in error_in(body)


def test_what_is_very_large_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lone_requests, "LARGEST", 100)
    _, body = sent(STREAM, b"data: " + b"x" * 200, b"x" * 50, b"\n\n")
    assert "larger than 100 bytes" in error_in(body)


def error_in(body: bytes) -> str:
    found: dict[str, Any] = json.loads(body)
    return str(found["error"]["message"])
