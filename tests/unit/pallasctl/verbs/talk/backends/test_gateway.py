"""A chat through a gateway that answers what a test tells it to."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from fakes.chat.gateway import FakeGateway, Reply, fake_gateway
from pallas_control.errors import GatewayError, GatewayRefusedError
from pallas_control.gateway import Gateway
from pallas_control.mcp.errors import ConnectionLostError, WrongAnswerError
from pallas_control.mcp.messages import ImageDocument
from pallasctl.failures import NoSuchAgent
from pallasctl.verbs.talk.backends.backend import Aside, Asked, Message, Reset, Result, Text
from pallasctl.verbs.talk.backends.gateway import GatewayBackend, NoSuchThread
from pallasctl.verbs.talk.backends.gateway_stream import TurnFailedError
from pallasctl.verbs.talk.backends.kept import NothingAskedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pallasctl.verbs.talk.backends.backend import Happened

API = "/api/v1"
CHAT = f"POST {API}/agents/jarvis/chat"
THREADS = f"{API}/agents/jarvis/threads"
TURN = f"DELETE {API}/threads/t-1/turn"
THREAD = {"id": "t-1", "agent": "jarvis", "title": "hi", "createdAt": "", "lastTurnAt": None}
FINAL = {"type": "final", "threadId": "t-1", "turnIndex": 1}


def events(*chunks: Any, done: bool = True) -> bytes:
    """A stream."""
    data = b"".join(b"data: %s\n\n" % json.dumps(chunk).encode() for chunk in chunks)
    return b": waiting\n\n" + data + (b"data: [DONE]\n\n" if done else b"")


@pytest.fixture
def gateway() -> Iterator[FakeGateway]:
    with fake_gateway() as fake:
        fake.reply(f"GET {THREADS}", Reply({"items": [THREAD], "nextCursor": None}))
        fake.reply(f"POST {THREADS}", Reply(THREAD, 201))
        fake.reply(f"GET {API}/threads/t-1", Reply(THREAD))
        fake.reply(f"DELETE {API}/threads/t-1", Reply({"deleted": "t-1"}))
        fake.reply(TURN, Reply({"stopped": True}))
        yield fake


def backend(fake: FakeGateway, agent: str = "jarvis") -> GatewayBackend:
    return GatewayBackend(Gateway(fake.url, "secret", "asked with a token"), agent, note="", tools=list)


def take(talk: GatewayBackend, message: str | None = "hi", **parameters: Any) -> list[Happened]:
    """All that happens in a turn."""
    asked = Asked(None if message is None else Message(message), parameters)
    return [item for item in talk.ask(asked) if item is not None]


def test_a_turn(gateway: FakeGateway) -> None:
    gateway.reply(
        CHAT,
        Reply(
            headers={"Pallas-Ignored": "top_k"},
            events=events(
                {"type": "text", "delta": "ab"},
                {"type": "reset", "characters": 1},
                {"type": "text", "delta": "c"},
                FINAL,
            ),
        ),
    )
    talk = backend(gateway)
    ignored, *told = take(talk, top_k=5)
    assert isinstance(ignored, Aside)
    assert "top_k" in ignored.text
    assert told == [Text("ab"), Reset(1), Text("c"), Result("ac", thread="t-1", turn_index=1)]
    posted = [request.body for request in gateway.requests if request.method == "POST"]
    assert posted == [{"title": "hi"}, {"top_k": 5, "stream": True, "message": "hi", "threadId": "t-1"}]
    assert {request.bearer for request in gateway.requests} == {"Bearer secret"}
    take(talk, None)
    assert gateway.requests[-1].body == {"stream": True, "retry": True, "threadId": "t-1"}
    talk.close()
    assert gateway.made("DELETE") == []


def test_images_are_data_urls(gateway: FakeGateway) -> None:
    gateway.reply(CHAT, Reply(events=events(FINAL)))
    image = ImageDocument(data="AAAA", mime_type="image/png")
    list(backend(gateway).ask(Asked(Message("", [image]), {})))
    assert gateway.requests[-1].body["images"] == ["data:image/png;base64,AAAA"]


def test_a_whole_answer(gateway: FakeGateway) -> None:
    answer = {
        "threadId": "t-1",
        "turnIndex": 1,
        "content": "5",
        "toolCalls": [],
        "usage": {"total_tokens": 3},
    }
    gateway.reply(CHAT, Reply(answer))
    [result] = [item for item in backend(gateway).whole(Asked(Message("hi"), {})) if item is not None]
    assert result == Result("5", [], {"total_tokens": 3}, "t-1", 1)
    assert gateway.requests[-1].body["stream"] is False


def test_who_stops_reading_stops_the_turn(gateway: FakeGateway) -> None:
    gateway.reply(CHAT, Reply(events=events({"type": "text", "delta": "a"}, done=False), holds=True))
    happening = backend(gateway).ask(Asked(Message("hi"), {}))
    assert Text("a") in happening
    happening.close()
    assert gateway.made("DELETE") == [f"{API}/threads/t-1/turn"]


def test_a_turn_that_has_not_begun_yet_is_asked_to_stop_until_it_does(gateway: FakeGateway) -> None:
    gateway.reply(CHAT, Reply(events=b"", holds=True))
    gateway.reply(TURN, Reply({"stopped": False}), Reply({"stopped": False}), Reply({"stopped": True}))
    talk = backend(gateway)
    happening = talk.ask(Asked(Message("hi"), {}))
    assert next(happening) is None
    happening.close()
    assert len(gateway.made("DELETE")) == 3
    talk.close()
    assert len(gateway.made("DELETE")) == 3, "what it has said so far is kept"


def test_a_thread_whose_turn_never_began_is_deleted(gateway: FakeGateway) -> None:
    error = {
        "error": {"type": "invalid", "message": "temperature: must be from 0 to 2", "field": "temperature"}
    }
    gateway.reply(CHAT, Reply(error, 400))
    talk = backend(gateway)
    for _ in range(2):
        with pytest.raises(GatewayRefusedError) as refused:
            take(talk)
        assert refused.value.field == "temperature"
    assert gateway.made("POST").count(THREADS) == 1, "the thread is used by the next turn"
    talk.clear()
    assert (gateway.made("DELETE"), talk.current) == ([f"{API}/threads/t-1"], None)


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (
            Reply({"error": {"type": "x", "message": "no"}}, 502, {"Pallas-Thread": "t-1"}),
            GatewayRefusedError,
        ),
        (Reply(events=events({"type": "error", "message": "it broke"})), TurnFailedError),
        (Reply(events=events({"type": "text", "delta": "a"}, done=False)), ConnectionLostError),
    ],
)
def test_a_turn_that_has_begun_and_failed_is_kept(
    gateway: FakeGateway, reply: Reply, error: type[Exception]
) -> None:
    gateway.reply(CHAT, reply)
    talk = backend(gateway)
    with pytest.raises(error):
        take(talk)
    talk.close()
    assert gateway.made("DELETE") == []


def test_what_is_no_gateway(gateway: FakeGateway) -> None:
    gateway.reply(CHAT, Reply(events=b"data: x\n\n"))
    with pytest.raises(WrongAnswerError):
        take(backend(gateway))
    gateway.reply(f"GET {THREADS}", Reply([1]))
    with pytest.raises(GatewayError, match="is not the gateway"):
        backend(gateway)


def test_a_token_that_may_not(gateway: FakeGateway) -> None:
    gateway.reply(f"GET {THREADS}", Reply({"error": {"message": "needs run:agents:jarvis"}}, 403))
    with pytest.raises(GatewayRefusedError, match="run:agents:jarvis; asked with a token"):
        backend(gateway)


def test_no_such_agent_and_no_such_thread(gateway: FakeGateway) -> None:
    with pytest.raises(NoSuchAgent):
        backend(gateway, "friday")
    talk = backend(gateway)
    for said in ("nope", "../x", ""):
        with pytest.raises(NoSuchThread):
            talk.resume(said)
    gateway.reply(f"GET {API}/threads/t-2", Reply({**THREAD, "id": "t-2", "agent": "friday"}))
    with pytest.raises(NoSuchThread, match="pallasctl chat friday"):
        talk.resume("t-2")
    assert talk.current is None


def test_retry_without_a_thread(gateway: FakeGateway) -> None:
    with pytest.raises(NothingAskedError):
        take(backend(gateway), None)


def test_messages_of_all_pages(gateway: FakeGateway) -> None:
    def page(text: str, cursor: str | None) -> Reply:
        return Reply(
            {"items": [{"role": "user", "content": text, "status": "complete"}], "nextCursor": cursor}
        )

    gateway.reply(f"GET {API}/threads/t-1/messages", page("one", "c"), page("two", None))
    talk = backend(gateway)
    assert talk.rows() == []
    talk.resume("t-1")
    assert [row["content"] for row in talk.rows()] == ["one", "two"]


def test_following_a_turn(gateway: FakeGateway) -> None:
    talk = backend(gateway)
    assert list(talk.follow()) == []
    talk.resume("t-1")
    gateway.reply(f"GET {API}/threads/t-1/turn", Reply("", 204))
    assert [item for item in talk.follow() if item is not None] == []
    gateway.reply(f"GET {API}/threads/t-1/turn", Reply(events=events({"type": "text", "delta": "a"}, FINAL)))
    told = [item for item in talk.follow() if item is not None]
    assert told == [Text("a"), Result("a", thread="t-1", turn_index=1)]
