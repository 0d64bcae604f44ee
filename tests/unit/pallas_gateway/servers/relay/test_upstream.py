"""What is known of a server stays true while it changes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pallas_gateway.servers.relay.model import STATELESS_VERSION, Answer, Call, Opened
from pallas_gateway.servers.relay.upstream import Upstream

if TYPE_CHECKING:
    from pallas_gateway.servers.relay.model import Heard

PATIENCE = 30.0

MIRRORED = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
PLAIN = {"type": "object", "properties": {"region": {"type": "string"}}}


class Link:
    """A server that lists `tools`, and tells when `changed` is set."""

    transport = "http"
    connections = 1

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
        while True:
            await self.changed.wait()
            self.changed.clear()
            heard("notifications/tools/list_changed", {})

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
