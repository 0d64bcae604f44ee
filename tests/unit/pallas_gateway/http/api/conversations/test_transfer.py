"""A thread goes out as lines and comes in again the same, and what is no export is refused by its line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pallas_gateway.http.api.conversations.transfer import read_lines
from pallas_gateway.http.errors import ApiError
from support.gateway.http.conversations import Talk, on_talk

if TYPE_CHECKING:
    from pathlib import Path

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
LINK = {"type": "image_url", "image_url": {"url": "https://example.com/x.png"}}
CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "sums__add", "arguments": '{"a" : 2}'}}
    ],
    "pallas": {"channels": {"x": ["y"]}},
}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "no", "is_error": True}
HEAD = {"kind": "thread", "format": 1, "title": "x"}


def lines(*documents: Any) -> bytes:
    return b"\n".join(json.dumps(each).encode() for each in documents)


def test_a_thread_comes_back_as_it_went(tmp_path: Path) -> None:
    async def do(talk: Talk) -> None:
        first = await talk.chat("Nothing", CALL, RESULT, message="See", images=[IMAGE["image_url"]["url"]])  # type: ignore[index]
        export = f"/api/v1/threads/{first['threadId']}/export"
        out = await talk.port.ask("GET", export, talk.ada)
        assert out.headers["content-type"] == "application/x-ndjson"
        head, *messages = map(json.loads, out.text.splitlines())
        assert head == {
            "kind": "thread",
            "format": 1,
            **await talk.ask("GET", f"/threads/{first['threadId']}"),
        }
        assert messages[0]["content"][1] == IMAGE
        assert messages[1]["pallas"] == CALL["pallas"]
        made = await talk.ask("POST", "/agents/friday/threads/import", status=201, content=out.content)
        assert (made["agent"], made["title"]) == ("friday", head["title"])
        again = await talk.port.ask("GET", f"/api/v1/threads/{made['id']}/export", talk.ada)
        _, *same = map(json.loads, again.text.splitlines())
        for one, other in zip(messages, same, strict=True):
            assert {**one, "turn": ""} == {**other, "turn": ""}
        shown = (await talk.ask("GET", f"/threads/{made['id']}/messages"))["items"]
        assert shown[0]["parts"][1] == IMAGE
        assert (shown[1]["toolCalls"], shown[1]["content"]) == (
            [{"id": "c1", "name": "sums__add", "arguments": {"a": 2}}],
            "",
        )
        assert (shown[2]["isError"], shown[2]["toolCallId"]) == (True, "c1")
        # The agent goes on with what was imported, word for word.
        copy = await talk.ask("POST", "/agents/jarvis/threads/import", status=201, content=out.content)
        asking, exchange = await talk.begin(message="And now?", threadId=copy["id"])
        assert exchange.body["messages"][1] == CALL
        await exchange.finish("Now")
        assert (await asking).json()["turnIndex"] == 5

    on_talk(tmp_path, do)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "nothing to import"),
        (b"{", "line 1"),
        (b"[1]", "line 1"),
        (lines({"kind": "message"}), "line 1: kind"),
        (lines({**HEAD, "format": 2}), "line 1: kind"),
        (lines({**HEAD, "title": "a\nb"}), "line 1: title"),
        (lines(HEAD, {"kind": "thread"}), "line 2: kind"),
        (lines(HEAD, {"kind": "message", "role": "root"}), "line 2: role"),
        (lines(HEAD, {"kind": "message", "role": "user", "content": 5}), "line 2: content"),
        (lines(HEAD, {"kind": "message", "role": "user", "content": [5]}), "line 2: content"),
        (lines(HEAD, {"kind": "message", "role": "user", "content": [{"type": "text"}]}), "line 2: content"),
        (lines(HEAD, {"kind": "message", "role": "user", "content": [LINK]}), "line 2: content"),
        (lines(HEAD, {"kind": "message", "role": "user", "status": "done"}), "line 2: status"),
        (lines(HEAD, {"kind": "message", "role": "user", "pallas": {}}), "line 2: pallas"),
        (lines(HEAD, {"kind": "message", "role": "user", "toolCalls": []}), "line 2: toolCalls"),
        (
            lines(HEAD, {"kind": "message", "role": "assistant", "toolCalls": [{"id": 1}]}),
            "line 2: toolCalls",
        ),
        (lines(HEAD, {"kind": "message", "role": "user", "createdAt": "soon"}), "line 2: createdAt"),
        (lines(HEAD, {"kind": "message", "role": "tool", "toolCallId": 5}), "line 2: toolCallId"),
        (lines(HEAD, *[{"kind": "message", "role": "user"}] * 10_001), "at most"),
    ],
)
def test_what_is_no_export_is_refused_by_its_line(body: bytes, said: str) -> None:
    with pytest.raises(ApiError) as raised:
        read_lines(body)
    assert said in str(raised.value)
    assert raised.value.status in (400, 413)


def test_what_was_under_way_elsewhere_is_not_under_way_here(tmp_path: Path) -> None:
    async def do(talk: Talk) -> None:
        message = {"kind": "message", "role": "assistant", "content": "So", "status": "pending"}
        made = await talk.ask(
            "POST", "/agents/jarvis/threads/import", status=201, content=lines(HEAD, message)
        )
        [found] = (await talk.ask("GET", f"/threads/{made['id']}/messages"))["items"]
        assert found["status"] == "error"
        assert found["error"]

    on_talk(tmp_path, do)
