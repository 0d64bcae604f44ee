"""Subscriptions of both eras over real sockets: what is told, to whom, in which order, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from pallas_gateway.identity.principal import EXPIRED, STREAM_GRACE
from pallas_gateway.mcp import reply as replies
from pallas_gateway.mcp import wire
from pallas_gateway.mcp.sessions import MOST_STREAMS
from support.gateway.mcp.raw import Events, Session, listening, open_session, post, stateless
from support.gateway.mcp.toy import Toy, serve

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio

ALL = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@contextlib.asynccontextmanager
async def toy_and_client(**settings: Any) -> AsyncIterator[tuple[Toy, httpx.AsyncClient]]:
    async with serve(Toy(**settings)) as toy, httpx.AsyncClient() as client:
        yield toy, client


def updated(uri: str) -> tuple[str, str | None]:
    return "notifications/resources/updated", uri


async def test_listening() -> None:
    async with toy_and_client() as (toy, client):
        wanted = {**ALL, "resourceSubscriptions": ["toy://one", "toy://none", "toy://two", "toy://one"]}
        toy.surface.forbidden.add("toy://two")
        async with listening(client, toy.url, wanted, request="mine") as events:
            acknowledged = await events.next()
            assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
            honoured = acknowledged["params"]["notifications"]
            assert honoured == {**ALL, "resourceSubscriptions": ["toy://one"]}
            toy.surface.change("toy://two")
            toy.surface.change("toy://one")
            toy.surface.change_list("prompts")
            toy.surface.change("toy://one")
            assert await events.told(2) == [
                updated("toy://one"),
                ("notifications/prompts/list_changed", None),
            ]
            assert events.tags == {"mine"}
            toy.endpoint.drain()
            last = await events.next()
            assert (last["id"], last["result"]["resultType"]) == ("mine", "complete")
            assert last["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == "mine"
            assert await events.ended()


async def test_only_what_was_asked_for_is_told() -> None:
    async with (
        toy_and_client() as (toy, client),
        listening(client, toy.url, {"promptsListChanged": True, "toolsListChanged": False}) as events,
    ):
        assert (await events.next())["params"]["notifications"] == {"promptsListChanged": True}
        toy.surface.change_list("tools")
        toy.surface.change("toy://one")
        toy.surface.change_list("prompts")
        assert await events.told(1) == [("notifications/prompts/list_changed", None)]


async def test_a_session() -> None:
    async with toy_and_client() as (toy, client):
        session = await open_session(client, toy.url)
        assert (await session.ask("resources/subscribe", uri="toy://one"))["result"] == {}
        assert (await session.ask("resources/subscribe", uri="toy://none"))["error"]["code"] == -32602
        # Nobody listens yet: it is kept, and coalesced.
        toy.surface.change("toy://one")
        toy.surface.change_list("tools")
        toy.surface.change("toy://one")
        async with session.events() as events:
            assert await events.told(2) == [updated("toy://one"), ("notifications/tools/list_changed", None)]
            assert (await session.ask("resources/unsubscribe", uri="toy://one"))["result"] == {}
            toy.surface.change("toy://one")
            toy.surface.change_list("resources")
            assert await events.told(1) == [("notifications/resources/list_changed", None)]


async def test_of_several_streams_of_a_session_the_newest_is_told() -> None:
    async with toy_and_client() as (toy, client):
        session = await open_session(client, toy.url)
        async with session.events() as older:
            async with session.events() as newer:
                toy.surface.change_list("tools")
                assert await newer.told(1) == [("notifications/tools/list_changed", None)]
            # It is closed once the server has noticed; what comes then is for the older one.
            await until(lambda: len(toy.endpoint.sessions.find(session.id, "someone", "/mcp").outlets) == 1)  # type: ignore[union-attr]
            toy.surface.change_list("prompts")
            assert await older.told(1) == [("notifications/prompts/list_changed", None)]


async def test_a_session_has_a_few_streams_and_the_oldest_gives_way() -> None:
    async with toy_and_client() as (toy, client), contextlib.AsyncExitStack() as stack:
        session = await open_session(client, toy.url)
        streams = [await stack.enter_async_context(session.events()) for _ in range(MOST_STREAMS + 1)]
        assert await streams[0].ended()
        toy.surface.change_list("tools")
        assert await streams[-1].told(1) == [("notifications/tools/list_changed", None)]
        found = toy.endpoint.sessions.find(session.id, "someone", "/mcp")
        assert found is not None
        assert len(found.outlets) == MOST_STREAMS


@pytest.mark.parametrize("era", ["stateless", "sessions"])
async def test_what_changes_between_the_read_and_the_subscription_is_told(era: str) -> None:
    async with toy_and_client() as (toy, client):
        reading, go_on = asyncio.Event(), asyncio.Event()

        async def pause() -> None:
            reading.set()
            await go_on.wait()

        toy.surface.reading = pause
        session = await open_session(client, toy.url)
        if era == "stateless":
            asked = post(client, toy.url, stateless("resources/read", uri="toy://one"))
            read = asyncio.create_task(asked)
        else:
            read = asyncio.create_task(session.ask("resources/read", uri="toy://one"))
        await reading.wait()
        # The old content has been taken, and is on its way.
        toy.surface.change("toy://one")
        go_on.set()
        found: Any = await read
        found = found.json() if era == "stateless" else found
        assert found["result"]["contents"][0]["text"] == "1"
        async with follow(era, client, toy, session) as events:
            assert await events.told(1) == [updated("toy://one")]


@contextlib.asynccontextmanager
async def follow(era: str, client: httpx.AsyncClient, toy: Toy, session: Session) -> AsyncIterator[Events]:
    """Be subscribed to the first resource."""
    if era == "stateless":
        async with listening(client, toy.url, {"resourceSubscriptions": ["toy://one"]}) as events:
            await events.next()
            yield events
    else:
        await session.ask("resources/subscribe", uri="toy://one")
        async with session.events() as events:
            yield events


@pytest.mark.parametrize("era", ["stateless", "sessions"])
async def test_a_grant_that_goes_ends_the_subscription(era: str) -> None:
    async with toy_and_client() as (toy, client):
        session = await open_session(client, toy.url)
        async with follow(era, client, toy, session) as events:
            toy.surface.forbidden.add("toy://one")
            toy.surface.change("toy://one")
            await until(lambda: toy.endpoint.subscriptions.resources == 0)
            toy.surface.forbidden.clear()
            toy.surface.change("toy://one")
            toy.endpoint.drain()
            assert await events.told() == []


@pytest.mark.parametrize("era", ["stateless", "sessions"])
async def test_a_revoked_principal_hears_no_more_and_others_do(era: str) -> None:
    async with toy_and_client() as (toy, client):
        session, other = await open_session(client, toy.url), await open_session(client, toy.url, who="you")
        await other.ask("resources/subscribe", uri="toy://one")
        async with follow(era, client, toy, session) as events, other.events() as others:
            toy.endpoint.revoke("someone")
            toy.surface.change("toy://one")
            assert await events.told() == []
            assert await others.told(1) == [updated("toy://one")]
            gone = await session.post({"jsonrpc": "2.0", "id": 1, "method": "ping"})
            assert gone.status_code == 404


async def test_a_token_that_is_revoked_in_mid_stream_ends_it_as_the_protocol_wants_it() -> None:
    wanted = {"resourceSubscriptions": ["toy://one"]}
    async with toy_and_client() as (toy, client), listening(client, toy.url, wanted, request=7) as events:
        await events.next()
        toy.surface.change("toy://one")
        toy.revoke("someone")
        found = await events.next()
        if "method" in found:  # what was pending may be told or not
            found = await events.next()
        assert (found["id"], found["result"]["resultType"]) == (7, "complete")
        assert await events.ended()


async def test_a_stream_ends_soon_after_its_token() -> None:
    async with toy_and_client() as (toy, client):
        toy.expires = time.time() - STREAM_GRACE + 0.2
        async with listening(client, toy.url, {"toolsListChanged": True}, request=7) as events:
            await events.next()
            assert (await events.next())["id"] == 7
            assert await events.ended()
        session = await open_session(client, toy.url)
        toy.expires = time.time() - STREAM_GRACE + 0.2
        headers = {**session.headers, "accept": "text/event-stream"}
        async with client.stream("GET", toy.url, headers=headers) as response:
            assert f": {EXPIRED}" in [line async for line in response.aiter_lines()]


async def test_streams_that_are_silent_say_that_they_are_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("reply", "streams"):
        monkeypatch.setattr(f"pallas_gateway.mcp.{module}.KEEP_ALIVE", 0.01)
    async with toy_and_client() as (toy, client):
        session = await open_session(client, toy.url)
        headers = {**session.headers, "accept": "text/event-stream"}
        async with client.stream("GET", toy.url, headers=headers) as response:
            pings = response.aiter_lines()
            assert [await anext(pings) for _ in range(6)] == [": ping", ""] * 3


async def test_a_reader_that_stalls_costs_nobody_else_anything_and_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replies, "STALLED", 0.5)
    async with toy_and_client() as (toy, client):
        uris = [f"toy://{number}/{'x' * 2000}" for number in range(200)]
        toy.surface.texts |= dict.fromkeys(uris, "")
        body, headers = stateless("subscriptions/listen", notifications={"resourceSubscriptions": uris})
        host, port = httpx.URL(toy.url).host, httpx.URL(toy.url).port
        reader, writer = await asyncio.open_connection(host, port, limit=1024)
        lines = [f"POST /mcp HTTP/1.1\r\nhost: {host}\r\ncontent-length: {len(body)}\r\n"]
        lines += [f"{name}: {value}\r\n" for name, value in headers.items()]
        writer.write("".join([*lines, "\r\n"]).encode() + body)
        await reader.readline()
        async with listening(client, toy.url, {"resourceSubscriptions": ["toy://one"]}) as events:
            await events.next()
            for turn in range(1000):
                for uri in uris:
                    toy.surface.change(uri)
                toy.surface.change("toy://one", str(turn))
                assert await events.told(1) == [updated("toy://one")]
                if toy.endpoint.subscriptions.subscribers == 1:
                    break
            else:
                await until(lambda: toy.endpoint.subscriptions.subscribers == 1)
        writer.close()


async def test_a_client_that_goes_is_forgotten() -> None:
    async with toy_and_client() as (toy, client):
        async with listening(client, toy.url, {"resourceSubscriptions": ["toy://one"]}) as events:
            await events.next()
            assert toy.endpoint.subscriptions.subscribers == 1
        await until(lambda: toy.endpoint.subscriptions.subscribers == 0)
        assert toy.endpoint.subscriptions.resources == 0


async def test_there_are_as_many_as_a_principal_may_have() -> None:
    async with toy_and_client(most=2) as (toy, client):
        wanted = {"resourceSubscriptions": ["toy://one", "toy://two"]}
        async with listening(client, toy.url, wanted) as events:
            await events.next()
            session = await open_session(client, toy.url)
            refused = await session.post(
                {"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": "toy://one"}}
            )
            assert (refused.status_code, refused.json()["error"]["code"]) == (429, -32954)
            refused = await post(client, toy.url, stateless("subscriptions/listen", notifications=wanted))
            assert (refused.status_code, refused.json()["error"]["code"]) == (429, -32954)
            other = await open_session(client, toy.url, who="you")
            assert (await other.ask("resources/subscribe", uri="toy://one"))["result"] == {}


async def until(holds: Any) -> None:
    """Wait for something that no event tells of; only a failing test waits long."""
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - what it waits for tells nobody
            await asyncio.sleep(0.005)


def test_events_are_lines_of_json() -> None:
    event = wire.event(b'{\n"a":\r\n"b"}')
    assert event.count(b"\n") == 3
    assert json.loads(event.split(b"data: ")[1]) == {"a": "b"}
