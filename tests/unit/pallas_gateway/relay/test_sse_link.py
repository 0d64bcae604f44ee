"""A real server of the SDK over HTTP+SSE, and hostile ones, behind one link."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from fakes.agent_server import answer, serving
from fakes.downstream import run_downstream
from pallas_gateway.relay.http.endpoint import parse_endpoint
from pallas_gateway.relay.http.errors import LostError, NoConnectionError, WrongAnswerError
from pallas_gateway.relay.messages.model import Call
from pallas_gateway.relay.sse_link import SseLink

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pallas_gateway.relay.messages.model import Era

PATIENCE = 30.0
STREAM = "Content-Type: text/event-stream"


def run[T](url: str, ask: Callable[[SseLink], Awaitable[T]]) -> T:
    async def asked() -> T:
        link = SseLink("old", parse_endpoint(url, {"X-Key": "secret"}))
        try:
            async with asyncio.timeout(PATIENCE):
                return await ask(link)
        finally:
            await link.close()

    return asyncio.run(asked())


def call(era: Era, tool: str, id_: str, **arguments: Any) -> Call:
    params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": "mine"}}
    return Call(method="tools/call", params=params, id=id_, era=era, timeout=PATIENCE)


@pytest.mark.parametrize("era", ["stateless", "sessions"])
def test_a_client_of_each_era_calls_it_and_hears_of_progress(era: Era) -> None:
    async def ask(link: SseLink) -> tuple[Any, list[Any]]:
        opened = await link.open()
        assert opened.era == "sessions"
        assert (await link.request("tools/list", {}, timeout=PATIENCE))["tools"][0]["name"] == "echo"
        echoed = await link.relay(call(era, "echo", "a", text="héllo"))
        assert isinstance(echoed.body, bytes)
        reported = await link.relay(call(era, "report", "b", messages=["one", "two"]))
        assert not isinstance(reported.body, bytes)
        lines = b"".join([piece async for piece in reported.body]).splitlines()
        return json.loads(echoed.body), [json.loads(line[6:]) for line in lines if line[:6] == b"data: "]

    with run_downstream() as server:
        echoed, (first, second, last) = run(server.sse_url, ask)
        assert {request.headers.get("x-key") for request in server.requests} == {"secret"}
    assert echoed["id"] == "a"
    assert echoed["result"]["content"][0]["text"] == "héllo"
    assert ("resultType" in echoed["result"]) == (era == "stateless")
    assert [each["params"]["message"] for each in (first, second)] == ["one", "two"]
    assert first["params"]["progressToken"] == "mine"
    assert last["id"] == "b"


def test_the_end_of_the_stream_ends_what_waits_and_the_watch_and_it_is_opened_anew() -> None:
    async def ask(link: SseLink) -> None:
        await link.open()
        watching = asyncio.ensure_future(link.watch(frozenset(), lambda *_: None))
        await asyncio.to_thread(server.stop)
        with pytest.raises(LostError):
            await watching
        with pytest.raises(LostError):
            await link.relay(call("sessions", "echo", "a", text="x"))
        with run_downstream(port=server.port):
            await link.open()
            assert isinstance((await link.relay(call("sessions", "echo", "a", text="x"))).body, bytes)

    with run_downstream() as server:
        run(server.sse_url, ask)


@pytest.mark.parametrize(
    ("sent", "error", "said"),
    [
        (answer("200 OK", "{}", "Content-Type: application/json"), WrongAnswerError, "no event stream"),
        (answer("405 No", "", "Allow: POST"), WrongAnswerError, "HTTP status 405"),
        (
            answer("200 OK", "event: endpoint\ndata: http://evil.example/\n\n", STREAM),
            WrongAnswerError,
            "evil",
        ),
        (answer("200 OK", "event: endpoint\ndata: //evil.example/\n\n", STREAM), WrongAnswerError, "evil"),
        (answer("200 OK", "data: /a b\r\n\r\n", STREAM), WrongAnswerError, "/a b"),
        (answer("200 OK", ": nothing\n\n", STREAM), LostError, "ended"),
        ("", LostError, "ended"),
    ],
)
def test_what_is_no_such_server_is_said_to_be_none(sent: str, error: type[Exception], said: str) -> None:
    with serving(sent) as server, pytest.raises(error, match=said):
        run(server.url, lambda link: link.open())


def test_nothing_is_called_before_it_is_open() -> None:
    with pytest.raises(NoConnectionError):
        run("http://127.0.0.1:9/sse", lambda link: link.relay(call("sessions", "echo", "a")))
