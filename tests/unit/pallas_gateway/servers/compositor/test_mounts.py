"""Servers by their names, kept from call to call."""

from __future__ import annotations

import asyncio
import math

from pallas_common.protocol.gateway import ServerUpstream
from pallas_gateway.servers.compositor.mounts import Mounts
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
