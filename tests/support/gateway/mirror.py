"""A directory beside a real control API on a real fleet without processes, with ways to agents that a test says."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

from pallas_common.protocol.gateway import AgentUpstream, Upstreams
from pallas_gateway.directory.control import ControlClient
from pallas_gateway.directory.directory import Directory
from support.supervisor.control_socket import on_socket
from support.supervisor.rig import Rig, rig, two_agents

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from starlette.requests import Request

    from pallas_gateway.directory.events.topics import Topic
    from pallas_gateway.directory.mirror import Gone


@dataclass
class Bench:
    """A directory, what it has published, and the rig that it mirrors."""

    rig: Rig
    path: Path
    directory: Directory
    told: list[Topic] = field(default_factory=list)
    gone: list[Gone] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    asked: list[str] = field(default_factory=list)
    upstreams: dict[str, AgentUpstream] = field(default_factory=dict)

    def publish(self, *changed: Topic) -> None:
        self.told += changed
        self.news.set()

    async def until(self, holds: Callable[[], Any]) -> None:
        """Wait until something holds; looked at whenever something was published."""
        async with asyncio.timeout(10):
            while not holds():
                self.news.clear()
                await self.news.wait()

    async def until_told(self, topic: Topic) -> None:
        await self.until(lambda: topic in self.told)

    def app(self) -> Starlette:
        """The control API, with the ways to agents."""

        async def answer(request: Request) -> JSONResponse:
            names = request.query_params.getlist("agent")
            self.asked.append(f"upstreams {' '.join(names)}".strip())
            found = [each for name, each in self.upstreams.items() if not names or name in names]
            return JSONResponse(Upstreams(agents=tuple(found)).to_json())

        async def api(scope: Any, receive: Any, send: Any) -> None:
            self.asked.append(scope["path"])
            await control(scope, receive, send)

        control = self.rig.control_api()
        return Starlette(routes=[Route("/v1/upstreams", answer), Mount("/", api)])


@asynccontextmanager
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with rig(tmp_path, two_agents()) as made:
        path = tmp_path / "control.sock"
        client = ControlClient(str(path))
        found = Bench(made, path, Directory(client, lambda *changed: found.publish(*changed)))
        found.directory.observe_gone(found.gone.append)
        task = asyncio.create_task(found.directory.run())
        try:
            yield found
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await client.close()


def on_bench(tmp_path: Path, do: Callable[[Bench], Awaitable[None]]) -> None:
    async def run() -> None:
        async with bench(tmp_path) as made, on_socket(made.app(), made.path):
            await made.until(lambda: made.directory.away is None)
            await do(made)

    asyncio.run(run())
