"""Servers by their names, kept from call to call."""

from __future__ import annotations

import asyncio
import math
from typing import Any

from pallas_common.protocol.gateway import ServerUpstream
from pallas_gateway.servers.compositor.mounts import Mount, Mounts, doubles, find, tools_shown
from support.gateway.turns.bench import NO_THREADS

DEAD = {"transport": "http", "url": "http://127.0.0.2:9/mcp"}


def test_a_server_that_was_dropped_because_nobody_used_it_is_there_again_for_the_next_call() -> None:
    async def main() -> None:
        mounts = Mounts(lambda *_: None, 1.0, NO_THREADS)
        servers = (ServerUpstream(name="git", settings=DEAD), ServerUpstream(name="web", settings=DEAD))
        first = mounts.of("agent/jarvis", servers)
        assert mounts.of("agent/jarvis", servers) == first
        await mounts.upstreams.sweep(math.inf)
        again = mounts.of("agent/jarvis", servers)
        assert [mount.name for mount in again] == ["git", "web"]
        assert all(mount.upstream.is_closed for mount in first)
        assert not any(mount.upstream.is_closed for mount in again)
        await mounts.upstreams.close()

    asyncio.run(main())


def test_use_keeps_a_server_however_often_the_same_definition_is_asked_for() -> None:
    async def main() -> None:
        mounts = Mounts(lambda *_: None, 1.0, NO_THREADS)
        servers = (ServerUpstream(name="git", settings=DEAD),)
        (first,) = mounts.of("agent/jarvis", servers)
        before = first.upstream.used
        mounts.of("agent/jarvis", servers)
        assert first.upstream.used > before
        await mounts.upstreams.sweep(first.upstream.used)
        assert not first.upstream.is_closed
        await mounts.upstreams.close()

    asyncio.run(main())


def test_other_definitions_replace_those_before() -> None:
    async def main() -> None:
        mounts = Mounts(lambda *_: None, 1.0, NO_THREADS)
        git, web = (ServerUpstream(name=name, settings=DEAD) for name in ("git", "web"))
        mounts.of("agent/jarvis", (git,))
        assert [mount.name for mount in mounts.of("agent/jarvis", (web, git))] == ["web", "git"]
        assert [mount.name for mount in mounts.last("agent/jarvis")] == ["web", "git"]
        assert mounts.of("agent/jarvis", ()) == []
        await mounts.upstreams.close()

    asyncio.run(main())


class Lister:
    """A server that lists tools with these schemas."""

    def __init__(self, tools: dict[str, Any]) -> None:
        self.tools = [{"name": name, "inputSchema": schema} for name, schema in tools.items()]

    def listed(self, name: str) -> list[Any]:
        return self.tools if name == "tools" else []


def mounted(**servers: dict[str, Any]) -> list[Mount]:
    made: Any = {name: Lister(tools) for name, tools in servers.items()}
    return [Mount(name, lister) for name, lister in made.items()]


def test_of_two_tools_of_one_full_name_the_first_is_listed_and_called() -> None:
    one, two = {"first": True}, {"second": True}
    mounts = mounted(k={"l__c": one}, k__l={"c": two, "d": two})
    assert [(tool["name"], tool["inputSchema"]) for tool in tools_shown(mounts, None)] == [
        ("k__l__c", one),
        ("k__l__d", two),
    ]
    found = find(mounts, "tools", "k__l__c")
    assert found is not None
    assert found[0].name == "k"
    assert list(doubles(mounts)) == [("k__l__c", "k", "k__l")]


def test_an_agent_is_one_tool_and_its_other_names_go_on_working() -> None:
    ask = {"type": "object", "properties": {"message": {}}}
    mounts = mounted(dates={"send_message": ask, "dates": ask, "get_health": {}})
    assert [tool["name"] for tool in tools_shown(mounts, None)] == ["dates__dates"]
    assert find(mounts, "tools", "dates__send_message") is not None
    assert [tool["name"] for tool in tools_shown(mounts, ("dates__send_*",))] == ["dates__send_message"]
