"""Calls of tools over real sockets: relayed, streamed, cancelled, written down before they are answered."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from pallas_gateway.mcp.admitted import AuditUnavailableError
from support.gateway.mcp.raw import Events, open_session, post, stateless
from support.gateway.mcp.toy import Toy, serve

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pallas_gateway.mcp.admitted import AuditedCall
    from pallas_gateway.mcp.surface import ClientRequest

pytestmark = pytest.mark.anyio

ANSWER = b'event: message\ndata: {"jsonrpc":"2.0","id":1,"result":{"content":[]}}\n\n'
PROGRESS = (
    b'event: message\ndata: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}\n\n'
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@contextlib.asynccontextmanager
async def toy_and_client(**settings: Any) -> AsyncIterator[tuple[Toy, httpx.AsyncClient]]:
    async with serve(Toy(**settings)) as toy, httpx.AsyncClient() as client:
        yield toy, client


def call(name: str, **params: Any) -> tuple[bytes, dict[str, str]]:
    return stateless("tools/call", name=name, arguments={}, **params)


def in_session(name: str, request: int = 1, **params: Any) -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "id": request,
        "method": "tools/call",
        "params": {"name": name, "arguments": {}, **params},
    }


async def test_results_of_2026_say_who_answered_and_how_long_they_hold() -> None:
    async with toy_and_client() as (toy, client):
        result = (await post(client, toy.url, call("echo"))).json()["result"]
        assert result["resultType"] == "complete"
        assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "toy"
        assert "ttlMs" not in result
        for raw in (
            stateless("server/discover"),
            stateless("tools/list"),
            stateless("prompts/list"),
            stateless("resources/list"),
            stateless("resources/templates/list"),
            stateless("resources/read", uri="toy://one"),
        ):
            result = (await post(client, toy.url, raw)).json()["result"]
            assert result["cacheScope"] == "private"
            assert result["ttlMs"] >= 0
        session = await open_session(client, toy.url)
        assert set((await session.ask("tools/list"))["result"]) == {"tools"}


async def test_what_is_relayed_goes_on_as_it_came() -> None:
    async with toy_and_client() as (toy, client):
        answer = await post(client, toy.url, call("relay", request=7))
        assert (
            answer.content
            == b'{"jsonrpc": "2.0",\n"id": 7, "result": {"content": [], "resultType": "complete"}}'
        )
        assert toy.audit.outcomes == [("toy/relay", "ok")]


@pytest.mark.parametrize("era", ["stateless", "sessions"])
async def test_notifications_come_before_the_answer_on_its_stream(era: str) -> None:
    async with toy_and_client() as (toy, client):
        meta = {"progressToken": "p"}
        if era == "stateless":
            answer = await post(client, toy.url, call("progress", _meta=meta))
        else:
            session = await open_session(client, toy.url)
            answer = await session.post(in_session("progress", _meta=meta))
        assert answer.headers["content-type"] == "text/event-stream"
        assert answer.headers["cache-control"] == "no-cache, no-transform"
        said = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
        assert [message["params"]["progress"] for message in said[:-1]] == [0, 1]
        assert said[-1]["result"]["content"][0]["text"] == "done"


@pytest.mark.parametrize(
    ("pieces", "written", "outcome"),
    [
        ([b": ping\n\n", PROGRESS, ANSWER], 2, "ok"),
        ([PROGRESS, ANSWER.replace(b'"content"', b'"isError": true, "content"')], 1, "failed"),
        ([ANSWER.replace(b"result", b"error")], 0, "error"),
        ([b'data: {"x":', b"1}\n\n"], 0, "ok"),
    ],
)
async def test_a_stream_goes_on_piece_by_piece_and_is_written_down_before_its_answer(
    pieces: list[bytes], written: int, outcome: str
) -> None:
    async with toy_and_client() as (toy, client):
        toy.surface.stream = pieces
        seen: list[int] = []
        body, headers = call("stream")
        async with client.stream("POST", toy.url, content=body, headers=headers) as answer:
            got = b""
            bytes_of = answer.aiter_raw()
            for piece in pieces:
                while not got.endswith(piece):
                    got += await anext(bytes_of)
                seen.append(len(toy.audit.calls))
                toy.surface.release.set()
            assert b"".join([it async for it in bytes_of]) == b""
        assert got == b"".join(pieces)
        assert seen == [0] * written + [1] * (len(pieces) - written)
        assert toy.audit.outcomes == [("toy/stream", outcome)]
        assert toy.surface.closed.is_set()


@pytest.mark.parametrize("name", ["wait", "stream"])
async def test_a_client_that_goes_away_cancels_its_call(name: str) -> None:
    async with toy_and_client() as (toy, client):
        toy.surface.stream = [PROGRESS, ANSWER]
        asking = asyncio.create_task(post(client, toy.url, call(name)))
        await toy.surface.waiting.wait()
        asking.cancel()
        await (toy.surface.cancelled if name == "wait" else toy.surface.closed).wait()
        while not toy.audit.calls:  # noqa: ASYNC110 - it is written a moment later
            await asyncio.sleep(0.001)
        assert toy.audit.outcomes == [(f"toy/{name}", "cancelled")]


async def test_a_session_cancels_its_requests_and_nobody_elses() -> None:
    async with toy_and_client() as (toy, client):
        session, other = await open_session(client, toy.url), await open_session(client, toy.url)
        asking = asyncio.create_task(session.post(in_session("wait", 5)))
        await toy.surface.waiting.wait()
        again = await session.post(in_session("echo", 5))
        assert again.json()["error"]["code"] == -32600, "an id that is under way"
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}
        for who in (other, session):
            assert not toy.surface.cancelled.is_set()
            assert (await who.post(cancel)).status_code == 202
        assert (await asking).json() == {
            "jsonrpc": "2.0",
            "id": 5,
            "error": {"code": -32800, "message": "the request was cancelled"},
        }
        assert toy.surface.cancelled.is_set()
        assert (await session.post(in_session("echo", 5))).json()["result"]
        assert toy.audit.outcomes == [("toy/wait", "cancelled"), ("toy/echo", "ok")]


async def test_the_end_of_a_session_ends_what_is_under_way_in_it() -> None:
    async with toy_and_client() as (toy, client):
        session = await open_session(client, toy.url)
        asking = asyncio.create_task(session.post(in_session("wait")))
        await toy.surface.waiting.wait()
        async with session.events() as events:
            await client.delete(toy.url, headers=session.headers)
            assert (await asking).json()["error"]["code"] == -32800
            assert await events.ended()
        assert (toy.endpoint.subscriptions.subscribers, len(toy.endpoint.sessions)) == (0, 0)


async def test_an_answer_that_takes_long_becomes_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pallas_gateway.mcp.reply.KEEP_ALIVE", 0.01)
    async with toy_and_client() as (toy, client):
        body, headers = call("wait")
        async with client.stream("POST", toy.url, content=body, headers=headers) as answer:
            assert answer.headers["content-type"] == "text/event-stream"
            toy.surface.release.set()
            assert (await Events(answer).next())["result"]["content"][0]["text"] == "released"


async def test_what_cannot_be_written_down_is_not_done(caplog: pytest.LogCaptureFixture) -> None:
    class Full:
        def begin(self, request: ClientRequest, what: str) -> object:
            """It seems to have room."""

        def called(self, call: AuditedCall) -> None:
            raise AuditUnavailableError("the disk is full")

    async with toy_and_client() as (toy, client):
        toy.audit.refusal = AuditUnavailableError("the disk is full")
        refused = await post(client, toy.url, call("wait"))
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, -32603)
        assert "the disk is full" in refused.json()["error"]["message"]
        assert not toy.surface.waiting.is_set()
        assert (await post(client, toy.url, stateless("tools/list"))).status_code == 200
        toy.endpoint.methods._audit = Full()
        for name in ("echo", "relay", "gone"):
            assert (await post(client, toy.url, call(name))).status_code == 503
        toy.surface.stream = [ANSWER]
        toy.surface.release.set()
        streamed = await post(client, toy.url, call("stream"))
        assert b"the disk is full" in streamed.content
        assert b"result" not in streamed.content


async def test_too_little_scope_is_for_the_application() -> None:
    async with toy_and_client() as (toy, client):
        assert (await post(client, toy.url, call("scope"))).status_code == 403
        assert [str(error.permission) for error in toy.denied] == ["run:agents:jarvis"]
        assert toy.audit.outcomes == [("toy/scope", "denied")]


@pytest.mark.parametrize("changes", [False, True])
async def test_lists_come_in_pages(changes: bool) -> None:
    async with toy_and_client() as (toy, client):
        names = toy.surface.names = [f"tool-{number:04}" for number in range(1200)]
        found: list[str] = []
        more: dict[str, Any] = {}
        sizes = []
        while True:
            page = (await post(client, toy.url, stateless("tools/list", **more))).json()["result"]
            found += [tool["name"] for tool in page["tools"]]
            sizes.append(len(page["tools"]))
            if "nextCursor" not in page:
                break
            more = {"cursor": page["nextCursor"]}
            if changes:
                toy.surface.names = [name for name in toy.surface.names if name >= found[-1]]
        assert found == [*names, "regional"]
        assert sizes == [500, 500, 201]


async def test_a_surface_without_a_list_has_none_of_its_methods() -> None:
    async with toy_and_client() as (toy, client):
        toy.surface.lists = frozenset({"tools"})
        toy.surface.completes = False
        found = (await post(client, toy.url, stateless("server/discover"))).json()["result"]
        assert found["capabilities"] == {"tools": {"listChanged": True}}
        for raw in (
            stateless("resources/list"),
            stateless("resources/read", uri="toy://one"),
            stateless("prompts/get", name="greet"),
            stateless("completion/complete"),
        ):
            answer = await post(client, toy.url, raw)
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, -32601)
        session = await open_session(client, toy.url)
        assert (await session.ask("resources/subscribe", uri="toy://one"))["error"]["code"] == -32601
