"""`GET /v1/events`: resumed at any position, followed without loss, and every query that makes no sense named."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route

from pallas_supervisor.agents.errors import RefusedError
from pallas_supervisor.events.log import MOST_EVENTS, EventLog
from pallas_supervisor.http.control import events as module
from pallas_supervisor.http.control.events import MOST_FOLLOWERS, EventRoute, parse_event_query
from pallas_supervisor.http.control.requests import MAX_QUERY, BadRequestError, TooLargeError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


def request(query: str) -> Request:
    return Request({"type": "http", "method": "GET", "query_string": query.encode(), "headers": []})


def log_of(count: int) -> EventLog:
    log = EventLog(epoch="this")
    for number in range(count):
        log.add("agent", "library" if number % 2 else "research", "state")
    return log


def get(log: EventLog, query: str) -> list[int]:
    """The numbers of the events in the answer."""

    async def run() -> httpx.Response:
        transport = httpx.ASGITransport(Starlette(routes=[Route("/v1/events", EventRoute(log).get)]))
        async with httpx.AsyncClient(transport=transport, base_url="http://pallas") as client:
            return await client.get(f"/v1/events?{query}")

    response = asyncio.run(run())
    assert response.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line)["seq"] for line in response.text.splitlines()]


async def followed(log: EventLog, query: str) -> AsyncGenerator[bytes]:
    """The pieces of an answer to a follower."""
    response: Any = await EventRoute(log).get(request(f"follow=1&{query}"))
    pieces: AsyncGenerator[bytes] = response.body_iterator
    return pieces


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ("", list(range(6, 106))),
        ("n=2", [104, 105]),
        ("n=0", []),
        ("n=2&name=research", [103, 105]),
        ("name=library&name=research&kind=agent&n=1", [105]),
        ("kind=llm", []),
        ("epoch=this&seq=103", [104, 105]),
        ("epoch=this&seq=105", []),
        ("epoch=that&seq=105", list(range(106))),
        ("epoch=this&name=research&seq=102", [103, 105]),
    ],
)
def test_what_is_asked_for(query: str, numbers: list[int]) -> None:
    assert get(log_of(105), query) == numbers


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("n=few", "`n` is 'few'; it is a number of events, 0 or more"),
        ("epoch=this&seq=-1", "`seq` is '-1'; it is the number of an event, 0 or more"),
        ("seq=3", "give its `epoch` as well"),
        ("epoch=this&n=3", "give one"),
        ("follow=yes", "`follow` is 'yes'; say 1 or 0"),
    ],
)
def test_a_query_that_makes_no_sense_is_named(query: str, message: str) -> None:
    with pytest.raises(BadRequestError, match=message):
        parse_event_query(request(query))


def test_a_position_that_is_not_there_yet_and_a_query_that_is_too_long() -> None:
    with pytest.raises(BadRequestError, match="`seq`: there is no event 8 yet; the newest is 7"):
        asyncio.run(EventRoute(log_of(7)).get(request("epoch=this&seq=8")))
    with pytest.raises(TooLargeError):
        parse_event_query(request("kind=" + "a" * MAX_QUERY))


def test_a_follower_gets_the_old_an_empty_line_and_the_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HEARTBEAT", 0.01)

    async def run() -> None:
        log = log_of(3)
        pieces = await followed(log, "epoch=this&seq=1")
        assert (await anext(pieces)).count(b"\n") == 2
        log.add("agent", "research", "state")  # before the follower knows that it has read the old ones
        assert await anext(pieces) == b"\n"
        assert json.loads(await anext(pieces))["seq"] == 4
        assert await anext(pieces) == b"\n", "a heartbeat"
        log.add("agent", "research", "state")
        while (piece := await anext(pieces)) == b"\n":
            pass
        assert json.loads(piece)["seq"] == 5
        log.close()
        assert [piece async for piece in pieces if piece != b"\n"] == []
        assert log.readers == 0

    asyncio.run(run())


def test_a_follower_that_does_not_read_gets_a_gap() -> None:
    async def run() -> None:
        log = log_of(1)
        pieces = await followed(log, "n=1")
        await anext(pieces)
        for _ in range(2 * MOST_EVENTS):
            log.add("agent", "research", "state")
        first = json.loads((await anext(pieces)).splitlines()[0])
        assert (first["kind"], first["event"], first["missed"]) == ("gap", "lost", MOST_EVENTS)

    asyncio.run(run())


def test_followers_have_a_limit() -> None:
    async def run() -> None:
        log = log_of(1)
        following = [await followed(log, "n=1") for _ in range(MOST_FOLLOWERS)]
        for pieces in following:
            await anext(pieces)
        with pytest.raises(RefusedError, match=f"{MOST_FOLLOWERS} clients follow the events already"):
            await followed(log, "")
        await EventRoute(log).get(request("n=1"))
        await following[0].aclose()
        await anext(await followed(log, ""))

    asyncio.run(run())
