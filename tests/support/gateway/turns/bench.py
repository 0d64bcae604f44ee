"""Turns on a real store, whose worker a test plays over HTTP."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from pallas_gateway.access.audit import Audit
from pallas_gateway.conversations.keeping.journal import Journals
from pallas_gateway.conversations.keeping.processes import Processes
from pallas_gateway.conversations.request import read_request
from pallas_gateway.conversations.turns import Ask, Turns
from pallas_gateway.conversations.worker import WorkerChats
from pallas_gateway.directory.records import AgentRecord
from pallas_gateway.identity.in_flight import InFlight
from pallas_gateway.identity.principal import Principal
from pallas_gateway.store.conversations import messages, threads
from pallas_gateway.store.database import Store, open_store
from support.gateway.turns.worker import ChatWorker, chat_worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from pallas_gateway.conversations.turn import RunningTurn
    from pallas_gateway.servers.chat.turns import ThreadTurns
    from pallas_gateway.store.conversations.records import Message, Thread

NO_THREADS = cast("ThreadTurns", None)
"""For surfaces whose agents are asked for nothing in threads."""
NO_TURNS = cast("Turns", None)
"""For threads in which nothing is asked."""

ADA = Principal(id="ada", name="Ada", role="human")
JARVIS = AgentRecord(name="jarvis")


@dataclass
class TurnBench:
    """Turns, with what they were made of."""

    turns: Turns
    worker: ChatWorker
    store: Store
    in_flight: InFlight
    folder: Path
    held: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)

    async def ask(
        self,
        message: str | None = None,
        thread: Thread | None = None,
        principal: Principal = ADA,
        **body: Any,
    ) -> RunningTurn:
        if message is not None:
            body["message"] = message
        if thread is not None:
            body["threadId"] = thread.id
        return await self.turns.start(
            Ask(
                principal=principal,
                agent=JARVIS,
                request=read_request(body),
                thread=thread,
                request_id="request-1",
            )
        )

    async def rows(self, thread: Thread) -> list[Message]:
        return await self.store.read(
            partial(messages.list_messages, tenant=thread.tenant, thread=thread.id, limit=1000)
        )

    async def told(self, thread: Thread) -> list[tuple[int, str, object, str]]:
        return [
            (each.turn_index, each.row.role, each.row.content, each.status)
            for each in await self.rows(thread)
        ]

    async def thread(self, of: RunningTurn) -> Thread | None:
        return await self.store.read(partial(threads.find_thread, tenant=of.thread.tenant, id=of.thread.id))

    async def until_changed(self, holds: Callable[[list[Message]], bool], thread: Thread) -> list[Message]:
        async with asyncio.timeout(10):
            while not holds(rows := await self.rows(thread)):  # noqa: ASYNC110 - a store tells of no change
                await asyncio.sleep(0.005)
        return rows


@asynccontextmanager
async def turn_bench(folder: Path, store: Store | None = None) -> AsyncIterator[TurnBench]:
    own = store is None
    store = store or open_store(f"sqlite:{folder / 'gateway.db'}")
    processes = Processes(folder)
    audit = Audit(folder)
    in_flight = InFlight()
    chats = WorkerChats()
    held: list[str] = []
    changed: list[str] = []

    def hold(principal: Principal) -> Callable[[], None]:
        held.append(principal.id)
        return lambda: held.remove(principal.id)

    async with chat_worker() as worker:
        turns = Turns(
            store,
            chats,
            worker,
            processes,
            Journals(folder),
            in_flight,
            audit,
            hold=hold,
            changed=lambda thread: changed.append(thread.id),
        )
        sweeping = asyncio.create_task(chats.run())
        try:
            yield TurnBench(turns, worker, store, in_flight, folder, held, changed)
        finally:
            await turns.drain(0)
            sweeping.cancel()
            await asyncio.gather(sweeping, return_exceptions=True)
            audit.close()
            processes.close()
            if own:
                await store.close()
