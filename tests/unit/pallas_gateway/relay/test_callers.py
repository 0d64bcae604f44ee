"""A server that keeps sessions has one for each who calls it; what one puts there is nobody else's."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from fakes.downstream import run_downstream
from pallas_gateway.relay import callers
from pallas_gateway.relay.http.endpoint import parse_endpoint
from pallas_gateway.relay.http_link import HttpLink
from pallas_gateway.relay.messages.model import Call
from pallas_gateway.relay.upstream import Upstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest

    from fakes.downstream import RunningDownstream


@asynccontextmanager
async def opened(server: RunningDownstream) -> AsyncIterator[Upstream]:
    upstream = Upstream("one", HttpLink(parse_endpoint(server.url, {})), lambda *_: None)
    await upstream.settled()
    try:
        yield upstream
    finally:
        await upstream.close()


async def ask(upstream: Upstream, caller: str | None, text: str) -> None:
    params: dict[str, Any] = {"name": "echo", "arguments": {"text": text}}
    call = Call(method="tools/call", params=params, id=1, era="stateless", timeout=60.0, caller=caller)
    answer = await upstream.relay(call)
    body = answer.body if isinstance(answer.body, bytes) else b"".join([each async for each in answer.body])
    assert text.encode() in body


def sessions(server: RunningDownstream) -> dict[str, str | None]:
    """The text of each call → the session in which it came."""
    return {
        each.json["params"]["arguments"]["text"]: each.headers.get("mcp-session-id")
        for each in server.requests
        if each.rpc_method == "tools/call"
    }


def test_each_caller_has_a_session_of_its_own_and_keeps_it() -> None:
    async def main() -> None:
        async with opened(server) as upstream:
            await asyncio.gather(ask(upstream, "ada", "a1"), ask(upstream, "ada", "a2"))
            await ask(upstream, "bob", "b1")
            await ask(upstream, "ada", "a3")
            await ask(upstream, None, "own")
        found = sessions(server)
        assert found["a1"] == found["a2"] == found["a3"]
        assert len({found["a1"], found["b1"], found["own"]}) == 3
        assert server.sessions_opened == 3
        assert not server.sessions_left

    with run_downstream(era="legacy") as server:
        asyncio.run(main())


def test_a_server_without_sessions_keeps_nobody_apart() -> None:
    async def main() -> None:
        async with opened(server) as upstream:
            await ask(upstream, "ada", "a")
            await ask(upstream, "bob", "b")
        assert set(sessions(server).values()) == {None}
        assert "initialize" not in server.methods

    with run_downstream(era="modern") as server:
        asyncio.run(main())


def test_a_session_that_nobody_uses_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callers, "MOST_CALLERS", 2)

    async def main() -> None:
        async with opened(server) as upstream:
            for name in ("ada", "bob", "eve"):
                await ask(upstream, name, name)
            found = sessions(server)
            assert found["ada"] not in server.sessions_left, "it was not used for the longest time"
            assert found["bob"] in server.sessions_left
            await upstream.sweep(float("inf"))
            assert len(server.sessions_left) == 1, "the gateway's own"
            await ask(upstream, "bob", "again")
            assert sessions(server)["again"] not in (None, *found.values())

    with run_downstream(era="legacy") as server:
        asyncio.run(main())


def test_a_server_that_has_forgotten_a_session_makes_another_one_for_that_caller() -> None:
    async def main() -> None:
        async with opened(server) as upstream:
            await ask(upstream, "ada", "before")
            upstream._callers._callers["ada"].link._session = "forgotten"  # type: ignore[attr-defined]
            await ask(upstream, "ada", "after")
        found = sessions(server)
        assert found["after"] not in (found["before"], "forgotten")

    with run_downstream(era="legacy") as server:
        asyncio.run(main())
