"""What is known of a server stays true while it changes: its lists, and resources as long as somebody wants to know."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from fakes.downstream import run_downstream
from pallas_gateway.relay import upstream as upstreams
from pallas_gateway.relay.http.endpoint import parse_endpoint
from pallas_gateway.relay.http_link import HttpLink
from pallas_gateway.relay.messages.model import OPENED, STATELESS_VERSION, Answer, Call, Opened
from pallas_gateway.relay.upstream import Upstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from fakes.downstream import Era, Recorded, RunningDownstream
    from pallas_gateway.relay.messages.model import Heard

PATIENCE = 60.0

MIRRORED = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
PLAIN = {"type": "object", "properties": {"region": {"type": "string"}}}


class Link:
    """A server that lists `tools`, and tells when `changed` is set."""

    transport = "http"
    connections = 1
    shares_connections = False
    keeps_sessions = False

    def __init__(self, tools: dict[str, Any]) -> None:
        self.tools = tools
        self.changed = asyncio.Event()

    async def open(self) -> Opened:
        return Opened(
            era="stateless", version=STATELESS_VERSION, capabilities={"tools": {}}, info={}, instructions=None
        )

    async def request(self, method: str, params: dict[str, Any], *, timeout: float) -> dict[str, Any]:
        assert method == "tools/list"
        return {"tools": [{"name": name, "inputSchema": schema} for name, schema in self.tools.items()]}

    async def relay(self, call: Call) -> Answer:
        raise AssertionError(call)

    async def watch(self, uris: frozenset[str], heard: Heard) -> None:
        heard(OPENED, {})
        while True:
            await self.changed.wait()
            self.changed.clear()
            heard("notifications/tools/list_changed", {})

    async def resubscribe(self, before: frozenset[str], after: frozenset[str]) -> bool:
        raise AssertionError(after)

    def another(self) -> Link:
        raise AssertionError("it keeps no sessions")

    async def close(self) -> None: ...


def test_which_tools_mirror_arguments_in_headers_follows_their_list() -> None:
    async def main() -> None:
        link, listed = Link({"regional": MIRRORED, "plain": PLAIN}), asyncio.Event()
        upstream = Upstream("s", link, lambda _, what: listed.set() if what == "tools" else None)
        async with asyncio.timeout(PATIENCE):
            await upstream.settled()
            assert [upstream.mirrors(name) for name in ("regional", "plain", "none")] == [True, False, False]
            link.tools = {"regional": PLAIN, "plain": MIRRORED}
            link.changed.set()
            await listed.wait()
            assert [upstream.mirrors(name) for name in ("regional", "plain")] == [False, True]
            await upstream.close()

    asyncio.run(main())


def test_a_server_that_tells_of_changes_without_end_is_not_asked_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    class Restless(Link):
        async def request(self, method: str, params: dict[str, Any], *, timeout: float) -> dict[str, Any]:
            asked.append(method)
            return await super().request(method, params, timeout=timeout)

        async def watch(self, uris: frozenset[str], heard: Heard) -> None:
            heard(OPENED, {})
            for _ in range(500):
                heard("notifications/tools/list_changed", {})
                await asyncio.sleep(0)
            self.changed.set()
            await asyncio.Event().wait()

    async def main() -> None:
        link = Restless({"plain": PLAIN})
        upstream = Upstream("s", link, lambda *_: None)
        async with asyncio.timeout(PATIENCE):
            await upstream.settled()
            await link.changed.wait()
            await upstream.close()

    monkeypatch.setattr(upstreams, "READ_INTERVAL", 3600.0)
    asyncio.run(main())
    assert len(asked) <= 2, "when it was opened, and at the first change"


def test_entries_that_cannot_be_shown_are_left_out_and_told_in_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        bad: dict[str, Any] = {f"without schema {number}": None for number in range(1000)}
        upstream = Upstream("s", Link({**bad, "plain": PLAIN, "two\nlines": PLAIN}), lambda *_: None)
        async with asyncio.timeout(PATIENCE):
            await upstream.settled()
            assert [each["name"] for each in upstream.listed("tools")] == ["plain"]
            await upstream.close()

    asyncio.run(main())
    assert caplog.text.count("left out") == 1
    assert "the server s: 1001 of its tools are left out: the first has no input schema" in caplog.text


ONE, TWO = "test://one", "test://two"


class Told:
    """What an upstream says has changed."""

    def __init__(self) -> None:
        self.what: list[str] = []
        self._news = asyncio.Event()

    def __call__(self, _: Upstream, what: str) -> None:
        self.what.append(what)
        self._news.set()

    async def until(self, *expected: str) -> None:
        """Wait until these have been told; they are forgotten then."""
        while not set(expected) <= set(self.what):
            self._news.clear()
            await self._news.wait()
        self.what.clear()


@asynccontextmanager
async def following(url: str, told: Told) -> AsyncIterator[Upstream]:
    upstream = Upstream("one", HttpLink(parse_endpoint(url, {})), told)
    try:
        async with asyncio.timeout(PATIENCE):
            await upstream.settled()
            yield upstream
    finally:
        await upstream.close()


def followed(request: Recorded) -> list[str] | None:
    """The resources that a request of 2026-07-28 is to hear of; None where it is no such request."""
    if request.rpc_method != "subscriptions/listen":
        return None
    found: list[str] = request.json["params"]["notifications"].get("resourceSubscriptions", [])
    return found


async def until(server: RunningDownstream, seen: Callable[[list[Recorded]], bool]) -> None:
    await asyncio.to_thread(server.wait_for, seen)


def test_one_stream_says_all_and_a_new_one_takes_its_place_before_it_ends() -> None:
    async def main() -> None:
        told = Told()
        async with following(server.url, told) as upstream:
            await until(server, lambda seen: followed(seen[-1]) == [])
            upstream.follow(ONE, "agent/a", 10)
            upstream.follow(ONE, "agent/b", 10)
            await told.until(ONE)  # what it was before, nobody knows
            upstream.follow(TWO, "agent/a", 10)
            await told.until(TWO)
            assert followed(server.requests[-1]) == [ONE, TWO]
            upstream.unfollow(ONE, "agent/a")
            upstream.unfollow(TWO, "agent/a")
            await until(server, lambda seen: followed(seen[-1]) == [ONE])
            assert ONE in upstream.following
            upstream.unfollow(ONE, "agent/b")
            await until(server, lambda seen: followed(seen[-1]) == [])
            assert upstream.following == frozenset()
            assert ONE not in told.what

    with run_downstream(era="modern") as server:
        asyncio.run(main())


def test_a_session_is_told_what_is_followed() -> None:
    async def main() -> None:
        told = Told()
        async with following(server.url, told) as upstream:
            await until(server, lambda seen: seen[-1].method == "GET")
            upstream.follow(ONE, "agent/a", 10)
            await told.until(ONE)
            upstream.unfollow(ONE, "agent/a")
            await until(server, lambda seen: seen[-1].rpc_method == "resources/unsubscribe")
            methods = [each for each in server.methods if each.startswith("resources/")]
            assert methods[-2:] == ["resources/subscribe", "resources/unsubscribe"]
            assert server.methods.count("GET") == 1

    with run_downstream(era="legacy") as server:
        asyncio.run(main())


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_a_stream_that_dies_is_opened_anew_and_nothing_that_was_missed_is_kept_back(era: Era) -> None:
    async def main() -> None:
        told = Told()
        async with following(server.url, told) as upstream:
            upstream.follow(ONE, "agent/a", 10)
            await told.until(ONE)
            await asyncio.to_thread(server.stop)
            await told.until("state")
            assert upstream.describe()["state"] == "failed"
            with run_downstream(era=era, port=server.port) as again:
                await told.until("state", ONE)
                assert upstream.describe()["state"] == "running"
                if era == "modern":
                    assert followed(again.requests[-1]) == [ONE]
                else:
                    assert "resources/subscribe" in again.methods

    with run_downstream(era=era) as server:
        asyncio.run(main())
