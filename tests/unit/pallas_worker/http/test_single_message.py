"""What is one JSON-RPC message, and what is said about anything else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pallas_worker.http.single_message import Refusal, read

GOOD: dict[str, Any] = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {}}


def without(*names: str) -> dict[str, Any]:
    return {key: value for key, value in GOOD.items() if key not in names}


@pytest.mark.parametrize(
    "message",
    [
        GOOD,
        GOOD | {"id": "seven"},
        GOOD | {"id": ""},
        GOOD | {"id": -(10**30)},
        GOOD | {"params": None},
        GOOD | {"more": [1.5, None, "🙂"]},
        without("params"),
        without("id"),
        without("id", "params"),
    ],
)
def test_a_request_or_notification_passes(message: dict[str, Any]) -> None:
    assert read(json.dumps(message).encode()) == message


@pytest.mark.parametrize(
    ("message", "words", "identifier"),
    [
        ([GOOD], "not a batch", None),
        ("x", "not a bare value", None),
        (None, "not a bare value", None),
        ({}, 'jsonrpc must be "2.0"', None),
        (GOOD | {"jsonrpc": 2.0}, 'jsonrpc must be "2.0"', 7),
        (GOOD | {"id": None}, "id must be a string or an integer", None),
        (GOOD | {"id": True}, "id must be a string or an integer", None),
        (GOOD | {"id": 1.0}, "id must be a string or an integer", None),
        (GOOD | {"method": None}, "method must be a string", 7),
        (without("method"), "method must be a string", 7),
        (without("method") | {"result": {}}, "A response is not expected", 7),
        (GOOD | {"params": []}, "params must be an object", 7),
        (GOOD | {"params": [], "id": "x"}, "params must be an object", "x"),
    ],
)
def test_anything_else_is_refused_with_the_id_of_the_request(
    message: Any, words: str, identifier: str | int | None
) -> None:
    refusal = read(json.dumps(message).encode())
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.id) == (-32600, identifier)
    assert words in refusal.message


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"NaN", b'"\\ud83d"', b"[" * 10_000, b"9" * 5000])
def test_what_is_no_json_is_a_parse_error(body: bytes) -> None:
    refusal = read(body)
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.id) == (-32700, None)
    assert refusal.message.startswith("Parse error: ")


def test_a_refusal_on_the_wire() -> None:
    refusal = read(b'{"jsonrpc": "2.0", "id": 7}')
    assert isinstance(refusal, Refusal)
    response = refusal.response()
    assert response.status_code == 400
    assert json.loads(bytes(response.body)) == {
        "jsonrpc": "2.0",
        "id": 7,
        "error": {"code": -32600, "message": "method must be a string"},
    }
