"""A stream of events: when it begins, what it says while nothing happens, how it ends, and who is not waited for."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from mcp_types import TextContent

from pallas_common.http.connections import Connections
from pallas_common.http.server import HttpServer
from pallas_worker.http.chat import stream as module
from pallas_worker.http.chat.client import GoneError, while_there
from pallas_worker.http.chat.event_queue import ENOUGH, TOO_MUCH
from pallas_worker.http.chat.stream import Stream
from pallas_worker.interface.chat.answers import Head
from pallas_worker.interface.errors import CallError, FailedTurn
from pallas_worker.interface.turn import Ignored, TakenBack, Text, TurnResult
from support.worker.conversation.chat import events

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Message, Receive, Scope, Send

    from pallas_worker.http.chat.stream import Room, RunTurn, Tell
    from pallas_worker.interface.chat.errors import ApiError

HEAD = Head("chatcmpl-1", 0, "demo")
RESULT = TurnResult(content=(TextContent(type="text", text="one two"),))
FAILED = FailedTurn("model", "no such luck", CallError("no such luck"))


SAID = "\ud83d is half of a pair, a line\n\ndata: x\r\n and \u2028, \u2029 and \x85"


class Sent:
    """What a stream has sent, and the error that it was answered with instead."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.refused: tuple[ApiError, Mapping[str, str]] | None = None

    async def send(self, message: Message) -> None:
        self.messages.append(message)

    async def respond(self, error: ApiError, headers: Mapping[str, str]) -> None:
        self.refused = (error, headers)

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.messages[0]["headers"]}

    @property
    def bodies(self) -> list[bytes]:
        return [message["body"] for message in self.messages[1:]]

    @property
    def events(self) -> list[Any]:
        return events(b"".join(self.bodies).decode().splitlines())


def run(turn: RunTurn) -> Sent:
    sent = Sent()
    asyncio.run(
        Stream(HEAD, [], {"X-Request-Id": "r"}, sent.send, include_usage=False).run(turn, sent.respond)
    )
    return sent


def test_it_begins_with_the_first_event_and_ends_with_done() -> None:
    async def turn(tell: Tell, _: Room) -> TurnResult:
        tell(Ignored(("top_k",)))
        await asyncio.sleep(0)
        tell(Text("a", "one "))
        tell(Text("a", "two"))
        await asyncio.sleep(0)
        return RESULT

    sent = run(turn)
    assert sent.headers == {
        "content-type": "text/event-stream",
        "cache-control": "no-cache",
        "x-accel-buffering": "no",
        "x-request-id": "r",
        "pallas-ignored": "top_k",
    }
    role, text, last, done = sent.events
    assert role["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert text["choices"][0]["delta"] == {"content": "one two"}, "a burst leaves as one"
    assert last["pallas"]["ignored"] == ["top_k"]
    assert done == "[DONE]"
    assert [message.get("more_body") for message in sent.messages[1:]] == [True, False]


@pytest.mark.parametrize("told", [[], [Ignored(("top_k",))]], ids=["nothing", "what is left out"])
def test_a_failure_before_anything_was_said_has_its_status(told: list[Ignored]) -> None:
    async def turn(tell: Tell, _: Room) -> TurnResult:
        for event in told:
            tell(event)
        raise FAILED

    sent = run(turn)
    assert sent.messages == []
    assert sent.refused is not None
    error, headers = sent.refused
    assert (error.status, error.code) == (502, "model_failed")
    assert headers == ({"Pallas-Ignored": "top_k"} if told else {})


def test_a_failure_later_is_the_last_event() -> None:
    async def turn(tell: Tell, _: Room) -> TurnResult:
        tell(Text("a", "one"))
        raise FAILED

    sent = run(turn)
    assert sent.refused is None
    assert sent.events[-1]["error"]["message"] == "no such luck"
    assert sent.messages[-1]["more_body"] is False


def test_comments_are_sent_while_nothing_happens() -> None:
    async def turn(tell: Tell, _: Room) -> TurnResult:
        await thrice.wait()
        tell(Text("a", "one two"))
        return RESULT

    sent: list[bytes] = []
    thrice = asyncio.Event()

    async def send(message: Message) -> None:
        sent.append(message.get("body", b""))
        if sent.count(b": waiting\n\n") == 3:
            thrice.set()

    async def run_it() -> None:
        await Stream(HEAD, [], {}, send, include_usage=False).run(turn, Sent().respond)

    with mock.patch.multiple(module, FIRST_WAIT=0.001, KEEP_ALIVE=0.001):
        asyncio.run(run_it())
    assert sent[1] == b": waiting\n\n"
    assert events(b"".join(sent).decode().splitlines())[-1] == "[DONE]"


def test_void_text_is_taken_back() -> None:
    async def turn(tell: Tell, room: Room) -> TurnResult:
        tell(Text("a", "on"))
        await asyncio.sleep(0.01)
        tell(TakenBack("a", 2))
        tell(Text("a", "one two"))
        return RESULT

    kinds = [event.get("pallas", {}).get("type") for event in run(turn).events[:-1]]
    assert kinds == [None, None, "retry", None, "turn"]


def test_whatever_is_said_can_be_sent() -> None:
    async def turn(tell: Tell, _: Room) -> TurnResult:
        tell(Text("a", SAID))
        return RESULT

    _, text, *_ = run(turn).events
    assert text["choices"][0]["delta"]["content"] == SAID.replace("\ud83d", "?")


def test_far_too_much_that_waits_ends_the_turn() -> None:
    async def turn(tell: Tell, _: Room) -> TurnResult:
        tell(Text("a", "x"))
        await asyncio.sleep(0)
        for _number in range(3):
            tell(Text("b", "y" * TOO_MUCH, "other"))
        await asyncio.Event().wait()
        return RESULT

    assert run(turn).events[-1]["error"]["code"] == "reader_too_slow"


def test_a_tool_that_goes_on_after_its_reader_has_gone_waits_for_nobody() -> None:
    rooms: list[Room] = []
    begun = asyncio.Event()

    async def turn(tell: Tell, room: Room) -> TurnResult:
        rooms.append(room)
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            tell(Text("a", "x" * ENOUGH))
        return RESULT

    async def run_it() -> None:
        request = asyncio.create_task(
            Stream(HEAD, [], {}, Sent().send, include_usage=False).run(turn, Sent().respond)
        )
        await begun.wait()
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)
        waiting = asyncio.ensure_future(rooms[0]())
        await asyncio.sleep(0)
        assert waiting.done()

    asyncio.run(run_it())


def test_work_ends_with_the_client() -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("cleaned up")

    async def gone() -> Message:
        await asyncio.sleep(0)
        return {"type": "http.disconnect"}

    with pytest.raises(GoneError):
        asyncio.run(while_there(gone, work()))
    assert ended == ["cleaned up"]


def test_a_reader_who_takes_nothing_is_cut_off_and_the_turn_with_him() -> None:
    ended: list[str] = []
    over = asyncio.Event()

    async def turn(tell: Tell, room: Room) -> TurnResult:
        try:
            while True:
                tell(Text("a", "x" * 10_000))
                await room()
                await asyncio.sleep(0)
        finally:
            ended.append("turn")

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        stream = Stream(HEAD, [], {}, send, include_usage=False)
        with suppress(GoneError):
            await while_there(receive, stream.run(turn, Sent().respond))
        ended.append("request")
        over.set()

    async def run_it() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            server = HttpServer(app, listener, Connections("test", 10, stall_timeout=0.2))
            server.start()
            _, writer = await asyncio.open_connection(*listener.getsockname(), limit=1)
            writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
            async with asyncio.timeout(60):
                await over.wait()
            writer.close()
            await server.drain(1)

    asyncio.run(run_it())
    assert ended == ["turn", "request"]
