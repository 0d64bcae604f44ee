"""Who asks for the ways to agents while the supervisor is being asked, and before it has ever answered."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from pallas_common.protocol.gateway import AgentUpstream, ServerUpstream, Upstreams
from pallas_control.errors import UnreachableError
from pallas_gateway.directory.upstreams import UpstreamCache

if TYPE_CHECKING:
    from pallas_gateway.directory.control import ControlClient

PATIENCE = 10.0


def server_of(agent: str) -> ServerUpstream:
    return ServerUpstream(name=f"of {agent}", settings={"command": "true"})


@dataclass
class Supervisor:
    """Answers when it is told to."""

    agents: list[str] = field(default_factory=lambda: ["library"])
    is_away: bool = False
    free: asyncio.Event = field(default_factory=asyncio.Event)
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def get(self, _path: str, _query: object = None) -> dict[str, Any]:
        self.asked.set()
        await self.free.wait()
        if self.is_away:
            raise UnreachableError("the supervisor is away")
        agents = tuple(
            AgentUpstream(name=name, uid=None, port=1, socket=None, servers=(server_of(name),))
            for name in self.agents
        )
        return Upstreams(agents=agents).to_json()

    def cache(self) -> UpstreamCache:
        return UpstreamCache(cast("ControlClient", self), lambda _: None)


async def begun(supervisor: Supervisor, cache: UpstreamCache) -> asyncio.Task[AgentUpstream | None]:
    """One who asks, and for whom the supervisor is being asked."""
    supervisor.asked.clear()
    asking = asyncio.create_task(cache.agent("library"))
    await supervisor.asked.wait()
    return asking


def test_all_who_ask_while_the_supervisor_is_asked_have_its_answer() -> None:
    async def main() -> None:
        supervisor = Supervisor()
        cache = supervisor.cache()
        async with asyncio.timeout(PATIENCE):
            first = await begun(supervisor, cache)
            second = asyncio.create_task(cache.agent("library"))
            supervisor.free.set()
            assert (found := await first) is not None
            assert await second == found
            supervisor.free.clear()
            supervisor.agents.clear()
            cache.outdate(["library"])
            first = await begun(supervisor, cache)
            second = asyncio.create_task(cache.agent("library"))
            supervisor.free.set()
            assert await first is None
            assert await second is None, "it is not the old one either"

    asyncio.run(main())


def test_a_token_that_nobody_knows_lets_nobody_else_wait() -> None:
    async def main() -> None:
        supervisor = Supervisor()
        supervisor.free.set()
        cache = supervisor.cache()
        async with asyncio.timeout(PATIENCE):
            assert await cache.agent("library") is not None
            supervisor.free.clear()
            supervisor.asked.clear()
            refreshing = asyncio.create_task(cache.refresh())
            await supervisor.asked.wait()
            assert await cache.agent("library") is not None
            assert not refreshing.done()
            supervisor.free.set()
            assert await refreshing

    asyncio.run(main())


def test_it_is_known_whether_the_supervisor_has_ever_answered() -> None:
    async def main() -> None:
        supervisor = Supervisor(is_away=True)
        supervisor.free.set()
        cache = supervisor.cache()
        async with asyncio.timeout(PATIENCE):
            assert await cache.agent("library") is None
            assert not cache.was_told
            supervisor.is_away = False
            assert await cache.agent("library") is not None
            assert cache.was_told

    asyncio.run(main())


def test_who_follows_servers_is_told_of_all_whenever_some_come_or_go() -> None:
    async def main() -> None:
        told: list[list[str]] = []
        supervisor = Supervisor(["library", "archive"])
        supervisor.free.set()
        cache = supervisor.cache()
        cache.on_servers(lambda servers: told.append(sorted(server.name for server in servers)))
        async with asyncio.timeout(PATIENCE):
            await cache.agent("library")
            cache.outdate(["library"])
            await cache.agent("library")
            assert told == [["of archive", "of library"]], "nothing has changed since"
            supervisor.agents.remove("library")
            cache.outdate(["library"])
            await cache.agent("library")
            assert told[1:] == [["of archive"]]

    asyncio.run(main())
