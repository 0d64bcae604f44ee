"""Turns over REST: framed as the reference has it, followed and stopped, going on without their clients."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from pallas_gateway.http.api.conversations import stream
from support.gateway.http.conversations import API, Talk, chunks, on_talk
from support.gateway.turns.worker import call, result, text, told

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.types import Message

    from support.gateway.turns.worker import Exchange

CALL = {
    "role": "assistant",
    "content": "Let me see.",
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "sums__add", "arguments": '{"a": 2}'}}
    ],
}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "5"}


def test_a_whole_answer_and_its_thread(tmp_path: Path) -> None:
    async def do(talk: Talk) -> None:
        asking, exchange = await talk.begin(message="What is 2 + 3?", temperature=0.5, stop=None, chat_id="c")
        assert exchange.body["messages"] == [{"role": "user", "content": "What is 2 + 3?"}]
        assert (exchange.body["temperature"], exchange.body["stop"]) == (0.5, None)
        await exchange.say(text("Let me see."), call("c1", a=2), result("c1", "5"), text("It is 5."))
        await exchange.finish("It is 5.", CALL, RESULT)
        answer = await asking
        body = answer.json()
        assert body == {
            "threadId": answer.headers["pallas-thread"],
            "turnIndex": 3,
            "content": body["content"],
            "toolCalls": [{"id": "c1", "name": "sums__add", "arguments": {"a": 2}}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
        }
        assert body["content"].endswith("It is 5.")
        assert answer.headers["pallas-ignored"] == "chat_id, seed"
        again = await talk.chat("Good.", message="Thanks", threadId=body["threadId"])
        assert (again["threadId"], again["turnIndex"], again["toolCalls"]) == (body["threadId"], 5, [])
        found = (await talk.ask("GET", f"/threads/{body['threadId']}/messages"))["items"]
        assert [each["role"] for each in found] == [
            "user",
            "assistant",
            "tool",
            "assistant",
            "user",
            "assistant",
        ]
        assert [each["turnIndex"] for each in found] == list(range(6))

    on_talk(tmp_path, do)


@pytest.mark.parametrize("arguments", ['{"a": 1e999}', '{"a": Infinity}', '{"a": "\\ud800"}'])
def test_what_is_no_json_is_told_as_json(tmp_path: Path, arguments: str) -> None:
    made = {"id": "c1", "type": "function", "function": {"name": "sums__add", "arguments": arguments}}

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    async def do(talk: Talk) -> None:
        asking, exchange = await talk.begin(message="What is 2 + 3?")
        await exchange.say(text("\ud800It is"), {"choices": [], "usage": {"total_tokens": float("nan")}})
        await exchange.finish("It is 5.", CALL | {"tool_calls": [made]}, RESULT)
        thread = (await asking).json()["threadId"]
        stream, exchange = await asyncio.gather(
            talk.stream(message="again", threadId=thread), talk.worker.next()
        )
        await exchange.say(call("c1", a=float("inf"), b="\ud800"))
        await exchange.finish("5")
        told = (await stream.aread()).decode()
        for data in told.split("data: ")[1:-1]:
            json.loads(data, parse_constant=refuse)
        assert '"args":{"a":null,"b":"?"}' in told
        listed = await talk.port.ask("GET", f"{API}/threads/{thread}/messages", talk.ada)
        found = json.loads(listed.text, parse_constant=refuse)["items"]
        assert found[1]["toolCalls"][0]["arguments"] == arguments

    on_talk(tmp_path, do)


def test_a_stream_is_framed_as_the_reference_has_it(tmp_path: Path) -> None:
    async def do(talk: Talk) -> None:
        streaming = asyncio.create_task(talk.stream(message="What is 2 + 3?"))
        exchange = await talk.worker.next()
        await exchange.say(text("Let\u2028"))
        response = await streaming
        assert response.headers["content-type"] == "text/event-stream"
        assert (response.headers["cache-control"], response.headers["x-accel-buffering"]) == (
            "no-cache",
            "no",
        )
        lines = response.aiter_lines()
        assert await anext(lines) == 'data: {"type":"text","delta":"Let\\u2028"}'
        await exchange.say(
            call("c1", a=2),
            result("c1", "5"),
            text("wrong"),
            told(type="retry", agent="jarvis", characters=5, of="answer"),
            text("It is 5."),
        )
        await exchange.finish("It is 5.", CALL, RESULT)
        told_ = chunks("\n".join([line async for line in lines]))
        assert [each for each in told_ if isinstance(each, dict) and each["type"] != "text"] == [
            {"type": "tool_call", "toolName": "sums__add", "args": {"a": 2}},
            {"type": "tool_result", "toolName": "sums__add", "ok": True},
            {"type": "reset", "characters": 5},
            {
                "type": "final",
                "threadId": response.headers["pallas-thread"],
                "turnIndex": 3,
            },
        ]
        assert told_[-1] == "[DONE]"

    on_talk(tmp_path, do)


def test_an_error_before_the_stream_has_its_status_and_one_in_it_is_told(tmp_path: Path) -> None:
    async def do(talk: Talk) -> None:
        error = {"error": {"message": "top_k: no", "type": "x", "param": "top_k", "code": "invalid_value"}}
        busy = {"error": {"message": "busy", "type": "x", "param": None, "code": "agent_busy"}}
        for streamed in (True, False):
            asking, exchange = await talk.begin(message="?", stream=streamed)
            await exchange.refuse(400, error)
            answer = await asking
            assert (answer.status_code, answer.json()["error"]["field"]) == (400, "top_k")
            asking, exchange = await talk.begin(message="?", stream=streamed)
            await exchange.refuse(429, busy, Retry_After="7")
            answer = await asking
            assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")
            assert answer.json()["error"]["type"] == "agent_busy"
        wrong = {
            "error": {"message": "messages[0].role: no", "param": "messages[0].role", "code": "invalid_value"}
        }
        own = [{"role": "user", "content": "?"}]
        for said, field in (({"messages": own}, "messages[0].role"), ({"message": "?"}, "message")):
            asking, exchange = await talk.begin(**said)
            await exchange.refuse(400, wrong)
            assert (await asking).json()["error"]["field"] == field
        streaming = asyncio.create_task(talk.stream(message="?"))
        exchange = await talk.worker.next()
        await exchange.say(text("So"))
        response = await streaming
        exchange.break_off()
        *_, last, done = chunks((await response.aread()).decode())
        assert (last["type"], done) == ("error", "[DONE]")
        messages = (await talk.ask("GET", f"/threads/{response.headers['pallas-thread']}/messages"))["items"]
        assert [(each["status"], each["content"]) for each in messages] == [
            ("complete", "?"),
            ("error", "So"),
        ]
        assert messages[1]["error"]

    on_talk(tmp_path, do)


def test_a_turn_goes_on_without_its_client_and_is_followed(tmp_path: Path) -> None:
    async def do(talk: Talk) -> None:
        response, exchange = await _begun_stream(talk)
        thread = response.headers["pallas-thread"]
        await response.aclose()
        follow = f"{API}/threads/{thread}/turn"
        following = await talk.port.client.send(talk.port.request("GET", follow, talk.ada), stream=True)
        assert following.status_code == 200
        lines = following.aiter_lines()
        first_id, first = await anext(lines), await anext(lines)
        assert first == 'data: {"type":"text","delta":"Once "}'
        await exchange.say(text("upon"))
        await exchange.finish("Once upon")
        told_ = chunks("\n".join([line async for line in lines]))
        assert told_ == [
            {"type": "text", "delta": "upon"},
            {"type": "final", "threadId": thread, "turnIndex": 1},
            "[DONE]",
        ]
        # After its end as well, from the beginning or from where one was; there is nothing for who has heard all of it.
        again = await talk.port.ask("GET", follow, talk.ada)
        assert chunks(again.text)[0] == {"type": "text", "delta": "Once upon"}
        later = {"Last-Event-ID": first_id.removeprefix("id: ")}
        behind = await talk.port.ask("GET", follow, talk.ada, headers=later)
        assert chunks(behind.text) == told_
        last = [line for line in behind.text.splitlines() if line.startswith("id: ")][-1]
        ended = await talk.port.ask(
            "GET", follow, talk.ada, headers={"Last-Event-ID": last.removeprefix("id: ")}
        )
        assert (ended.status_code, ended.content) == (204, b""), "an `EventSource` does not come again"
        assert (await talk.port.ask("HEAD", follow, talk.ada)).status_code == 405
        other = await talk.ask("POST", "/agents/jarvis/threads", status=201)
        await talk.ask("GET", f"/threads/{other['id']}/turn", status=204)

    on_talk(tmp_path, do)


def test_who_comes_late_is_told_of_many_calls_bit_by_bit(tmp_path: Path) -> None:
    sent: list[int] = []

    async def send(message: Message) -> None:
        sent.append(len(message.get("body", b"")))

    async def do(talk: Talk) -> None:
        asking, exchange = await talk.begin(message="Add")
        await exchange.say(*(call(f"c{number}", a="x" * 50_000) for number in range(20)))
        await exchange.finish("Done.")
        running = talk.turns.of("default", (await asking).json()["threadId"])
        assert running is not None
        await stream.send_turn(running, send)
        assert sum(sent) > 1_000_000
        assert max(sent) < 200_000

    on_talk(tmp_path, do)


def test_a_turn_is_stopped(tmp_path: Path) -> None:
    async def do(talk: Talk) -> None:
        response, exchange = await _begun_stream(talk)
        turn = f"/threads/{response.headers['pallas-thread']}/turn"
        assert await talk.ask("DELETE", turn) == {"stopped": True}
        await exchange.gone()
        assert chunks((await response.aread()).decode())[-2:] == [
            {"type": "error", "message": "stopped"},
            "[DONE]",
        ]
        messages = (await talk.ask("GET", turn.replace("/turn", "/messages")))["items"]
        assert [(each["status"], each["content"], each.get("error")) for each in messages[1:]] == [
            ("error", "Once ", "stopped")
        ]
        assert await talk.ask("DELETE", turn) == {"stopped": False}
        assert "chat/stop" in "\n".join(talk.port.audited())

    on_talk(tmp_path, do)


def test_two_turns_of_a_thread(tmp_path: Path) -> None:
    async def do(talk: Talk) -> None:
        thread = (await talk.ask("POST", "/agents/jarvis/threads", status=201))["id"]
        first, exchange = await talk.begin(message="One", threadId=thread)
        refused = await talk.ask(
            "POST", "/agents/jarvis/chat", status=409, json={"message": "Two", "threadId": thread}
        )
        assert refused["error"]["type"] == "thread_busy"
        waiting = asyncio.create_task(
            talk.ask(
                "POST", "/agents/jarvis/chat", json={"message": "Two", "threadId": thread, "onBusy": "wait"}
            )
        )
        await exchange.finish("1")
        assert (await first).json()["turnIndex"] == 1
        second = await talk.worker.next()
        assert [each["content"] for each in second.body["messages"]] == ["One", "1", "Two"]
        await second.finish("2")
        assert (await waiting)["turnIndex"] == 3
        again = await talk.chat("Zwei", retry=True, threadId=thread)
        assert again["turnIndex"] == 5
        rows = (await talk.ask("GET", f"/threads/{thread}/messages"))["items"]
        assert [(each["content"], each["status"]) for each in rows[2:]] == [
            ("Two", "error"),
            ("2", "error"),
            ("Two", "complete"),
            ("Zwei", "complete"),
        ]

    on_talk(tmp_path, do)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "message"),
        ({"message": ""}, "message"),
        ({"message": "x", "temperature": 3}, "temperature"),
        ({"message": "x", "stop": ["a"] * 5}, "stop"),
        ({"message": "x", "massage": 1}, "massage"),
        ({"message": "x", "onBusy": "later"}, "onBusy"),
        ({"message": "x", "images": ["http://x/y.png"]}, "images[0]"),
        ({"retry": True}, "threadId"),
    ],
)
def test_what_is_wrong_is_named_before_anything_is_kept(tmp_path: Path, body: Any, field: str) -> None:
    async def do(talk: Talk) -> None:
        error = (await talk.ask("POST", "/agents/jarvis/chat", status=400, json=body))["error"]
        assert error["field"] == field
        assert (await talk.ask("GET", "/threads"))["items"] == []

    on_talk(tmp_path, do)


def test_who_may_ask_and_in_which_thread(tmp_path: Path) -> None:
    async def do(talk: Talk) -> None:
        made = await talk.chat("Hi", message="Hello")
        port = talk.port
        viewer, other = port.token("eve", "view:agents", "view:threads"), port.token("bob", "run:agents")
        both = port.token("kim", "run:agents", "view:threads", "view:agents")
        body = {"message": "x"}
        await talk.ask("POST", "/agents/jarvis/chat", viewer, status=403, json=body)
        await talk.ask("POST", "/agents/nobody/chat", status=404, json=body)
        await talk.ask(
            "POST", "/agents/jarvis/chat", port.token("x", "run:agents:friday"), status=404, json=body
        )
        in_thread = {**body, "threadId": made["threadId"]}
        await talk.ask("POST", "/agents/jarvis/chat", other, status=404, json=in_thread)
        await talk.ask("POST", "/agents/jarvis/chat", both, status=403, json=in_thread)
        wrong = await talk.ask("POST", "/agents/friday/chat", status=400, json=in_thread)
        assert wrong["error"]["field"] == "threadId"
        await talk.ask("POST", "/agents/jarvis/chat", status=404, json={**body, "threadId": "x' or 1"})
        assert "eve chat agent/jarvis denied" in port.audited()

    on_talk(tmp_path, do)


def test_a_turn_holds_a_place_until_it_ends_and_followers_hold_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "MOST_FOLLOWERS", 1)

    async def do(talk: Talk) -> None:
        ada = talk.ada
        streaming = asyncio.create_task(talk.stream(ada, message="Tell me"))
        exchange = await talk.worker.next()
        await exchange.say(text("Once "))
        response = await streaming
        turn = f"{API}/threads/{response.headers['pallas-thread']}/turn"
        await response.aclose()
        refused = await talk.port.ask("GET", turn, ada)
        assert refused.status_code == 429, "the turn has the one place"
        bob = talk.port.token("bob", "run:agents", "view:threads")
        following = await talk.port.client.send(talk.port.request("GET", turn, bob), stream=True)
        assert (await talk.port.ask("GET", f"{API}/threads", bob)).status_code == 200, (
            "who follows holds none"
        )
        assert (await talk.port.ask("GET", turn, bob)).status_code == 429, "it may follow one"
        await exchange.finish("Once")
        assert chunks((await following.aread()).decode())[-1] == "[DONE]"
        assert (await talk.port.ask("GET", turn, ada)).status_code == 200

    on_talk(tmp_path, do, concurrent=1)


def test_a_silent_turn_says_that_it_is_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "KEEP_ALIVE", 0.01)

    async def do(talk: Talk) -> None:
        streaming = asyncio.create_task(talk.stream(message="Tell me"))
        exchange = await talk.worker.next()
        response = await streaming
        lines = response.aiter_lines()
        for _ in range(2):
            assert await anext(lines) == ": waiting"
            assert await anext(lines) == ""
        await exchange.refuse(503, {"error": {"message": "no", "code": "agent_failed"}})
        told_ = [each for each in chunks("\n".join([line async for line in lines])) if each != ": waiting"]
        assert told_ == [{"type": "error", "message": "no"}, "[DONE]"]

    on_talk(tmp_path, do)


def test_who_does_not_read_is_cut_off_and_the_turn_goes_on(tmp_path: Path) -> None:
    async def do(talk: Talk) -> None:
        response, exchange = await _begun_stream(talk)
        thread = response.headers["pallas-thread"]
        most = 16 * 1024 * 1024 - 1000
        for _ in range(most // 500_000):
            await exchange.say(text("x" * 500_000))
        token = talk.ada
        while len(talk.port.in_flight) > 1:  # noqa: ASYNC110 - the turn alone is left: nobody is told of that
            await asyncio.sleep(0.02)
        await exchange.finish("Once")
        rest = await talk.port.ask("GET", f"{API}/threads/{thread}/turn", token)
        assert chunks(rest.text)[-2]["type"] == "final"
        with pytest.raises(httpx.HTTPError):
            await response.aread()

    on_talk(tmp_path, do, stall_timeout=0.1)


def test_a_token_that_counts_no_more_ends_its_streams_with_an_error(tmp_path: Path) -> None:
    async def do(talk: Talk) -> None:
        response, exchange = await _begun_stream(talk)
        [ada] = [each for each in talk.port.in_flight.principals() if each.id == "ada"]
        talk.port.in_flight.end(ada)
        *_, last, done = chunks((await response.aread()).decode())
        assert (last["type"], done) == ("error", "[DONE]")
        await exchange.gone()

    on_talk(tmp_path, do)


async def _begun_stream(talk: Talk) -> tuple[httpx.Response, Exchange]:
    """A stream of which the first text has come, and its request at the worker."""
    streaming = asyncio.create_task(talk.stream(message="Tell me"))
    exchange = await talk.worker.next()
    await exchange.say(text("Once "))
    return await streaming, exchange
