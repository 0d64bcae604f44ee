"""Conversations over REST on a real store, with real turns and a worker that a test speaks for."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pallas_gateway.conversations.keeping.journal import Journals
from pallas_gateway.conversations.keeping.processes import Processes
from pallas_gateway.conversations.turns import Turns
from pallas_gateway.conversations.worker import WorkerChats
from pallas_gateway.directory.records import AgentRecord
from pallas_gateway.http.api.conversations.access import Conversations
from pallas_gateway.http.api.conversations.asking import Asking
from pallas_gateway.http.api.conversations.changes import ThreadChanges
from pallas_gateway.http.api.conversations.routes import conversation_routes
from pallas_gateway.http.api.conversations.stream import Followers
from pallas_gateway.store.database import Store, open_store
from pallas_gateway.store.usage import Room
from support.gateway.http.port import GatewayPort, Shared, gateway_port
from support.gateway.turns.worker import ChatWorker, chat_worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    import httpx
    from starlette.routing import Route

    from support.gateway.turns.worker import Exchange

API = "/api/v1"
CHAT = f"{API}/agents/jarvis/chat"
EVERYTHING = ("run:agents", "view:agents")


@dataclass
class Agents:
    """What a directory knows."""

    agents: dict[str, AgentRecord] = field(
        default_factory=lambda: {
            "jarvis": AgentRecord(name="jarvis"),
            "friday": AgentRecord(name="friday", uid="uid-of-friday", source="resource"),
        }
    )
    away: str | None = None

    def agent(self, said: str) -> AgentRecord | None:
        return next((each for each in self.agents.values() if said in (each.name, each.uid)), None)


@dataclass
class Talk:
    """The port, and what is behind it."""

    port: GatewayPort
    worker: ChatWorker
    agents: Agents
    turns: Turns
    store: Store

    @property
    def ada(self) -> str:
        """Who may run and view all agents."""
        return self.port.token("ada", *EVERYTHING)

    async def ask(
        self, method: str, path: str, token: str | None = None, *, status: int = 200, **options: Any
    ) -> Any:
        """The JSON of an answer."""
        answer = await self.port.ask(method, API + path, token or self.ada, **options)
        assert answer.status_code == status, (answer.status_code, answer.text)
        return answer.json() if answer.content else None

    async def begin(
        self, token: str | None = None, **body: Any
    ) -> tuple[asyncio.Task[httpx.Response], Exchange]:
        """A chat that is under way, and its request at the worker."""
        asking = asyncio.create_task(self.port.ask("POST", CHAT, token or self.ada, json=body))
        coming = asyncio.create_task(self.worker.next())
        await asyncio.wait({asking, coming}, return_when=asyncio.FIRST_COMPLETED)
        assert coming.done(), asking.result().text
        return asking, coming.result()

    async def chat(self, answer: str, *before: Any, token: str | None = None, **body: Any) -> Any:
        """The JSON of a whole chat, that the worker answers with this."""
        asking, exchange = await self.begin(token, **body)
        await exchange.finish(answer, *before)
        answered = await asking
        assert answered.status_code == 200, answered.text
        return answered.json()

    async def stream(self, token: str | None = None, **body: Any) -> httpx.Response:
        """A streamed chat, of which the head has come."""
        request = self.port.request("POST", CHAT, token or self.ada, json={"stream": True, **body})
        return await self.port.client.send(request, stream=True)


def chunks(text: str) -> list[Any]:
    """The chunks of a stream, `[DONE]` and comments included, ids left out."""
    found: list[Any] = []
    for frame in text.split("\n\n"):
        lines = [line for line in frame.split("\n") if line and not line.startswith("id: ")]
        for line in lines:
            if line.startswith("data: "):
                data = line.removeprefix("data: ")
                found.append(data if data == "[DONE]" else json.loads(data))
            else:
                found.append(line)
    return found


@contextlib.asynccontextmanager
async def talk(folder: Path, **settings: Any) -> AsyncIterator[Talk]:
    """All of it, until the block ends."""
    store = open_store(f"sqlite:{folder / 'gateway.db'}")
    processes, chats, agents = Processes(folder), WorkerChats(), Agents()
    made: list[Turns] = []
    async with chat_worker() as worker:

        def routes(shared: Shared) -> list[Route]:
            limits = shared.limiter.limits
            room = Room(owner=limits.storage, tenant=limits.tenant_storage)
            turns = Turns(
                store,
                chats,
                worker,
                processes,
                Journals(folder),
                shared.in_flight,
                shared.audit,
                hold=shared.limiter.hold,
                room=room,
            )
            made.append(turns)
            conversations = Conversations(store, agents, room)  # type: ignore[arg-type]
            return conversation_routes(
                conversations,
                Asking(conversations, turns, shared.audit),
                ThreadChanges(conversations, turns, shared.audit),
                turns,
                shared.audit,
                Followers(),
            )

        settings = {"requests_per_minute": 10_000, "tenant_requests_per_minute": 10_000, **settings}
        sweeping = asyncio.create_task(chats.run())
        try:
            async with gateway_port(folder, routes, **settings) as port:
                try:
                    yield Talk(port, worker, agents, made[0], store)
                finally:
                    await made[0].drain(0)
        finally:
            sweeping.cancel()
            await asyncio.gather(sweeping, return_exceptions=True)
            processes.close()
            await store.close()


def on_talk(folder: Path, do: Callable[[Talk], Awaitable[None]], **settings: Any) -> None:
    """Run a test on it."""

    async def run() -> None:
        async with talk(folder, **settings) as made, asyncio.timeout(60):
            await do(made)

    asyncio.run(run())
