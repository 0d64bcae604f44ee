"""Turns that nobody works on any more: what a process left that is dead, or could not write when it ended."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger
from pallas_gateway.conversations.keeping.turn_rows import fail_with
from pallas_gateway.conversations.rows import said_in
from pallas_gateway.store.conversations import threads, turns

if TYPE_CHECKING:
    from collections.abc import Callable

    from pallas_gateway.conversations.keeping.journal import Journals
    from pallas_gateway.conversations.keeping.processes import Processes
    from pallas_gateway.store.conversations.records import Thread
    from pallas_gateway.store.database import Store

LEFT = "nobody works on it any more: the gateway ended, or could not keep what the agent said"

_log = get_logger("pallas.gateway.conversations")


class LeftTurns:
    """They are ended as failed, with what they had told.

    Args:
        changed: is told of each thread that has changed, after it has.
    """

    def __init__(
        self, store: Store, processes: Processes, journals: Journals, changed: Callable[[Thread], object]
    ) -> None:
        self._store = store
        self._processes = processes
        self._journals = journals
        self._changed = changed
        self._elsewhere: set[tuple[str, str]] = set()
        """Threads of which another process had the turn at the last look."""
        self.active: set[str] = set()
        """Ids of turns that this process works on, also before they are begun in the store."""

    async def put_in_order(self) -> None:
        """End the turns that nobody works on.

        Raises:
            StoreError: the store does not answer.
        """
        # Before the store is asked: a journal that is there now is of a turn that has begun in the store before.
        journals = await asyncio.to_thread(self._journals.turns)
        under_way = await self._store.read(turns.pending_turns)
        elsewhere: set[tuple[str, str]] = set()
        for tenant, thread, turn, process in under_way:
            if await self.is_left(turn, process):
                await self.give_up(tenant, thread, turn)
            elif process != self._processes.own:
                elsewhere.add((tenant, thread))
        # The other process has told of their ends those who are connected to it.
        for tenant, thread in self._elsewhere - elsewhere:
            await self._tell(tenant, thread)
        self._elsewhere = elsewhere
        # Of turns that are over, or whose thread is gone: who worked on them had no time to remove them.
        for turn in set(journals) - {each.turn for each in under_way} - self.active:
            self._journals.remove(turn)

    async def is_left(self, turn: str, process: str | None) -> bool:
        """Whether nobody works on it."""
        if process == self._processes.own:
            return turn not in self.active
        return process is None or not await asyncio.to_thread(self._processes.is_alive, process)

    async def give_up(self, tenant: str, thread: str, turn: str) -> None:
        """End a turn that nobody works on, with what it had told."""
        said = await asyncio.to_thread(lambda: said_in(self._journals.entries(turn)))
        fail = partial(fail_with, tenant=tenant, thread=thread, turn=turn, said=said, why=LEFT)
        if await self._store.write(fail):
            _log.warning(f"a turn of thread {thread} has failed: {LEFT}")
            await self._tell(tenant, thread)
        self._journals.remove(turn)

    async def _tell(self, tenant: str, thread: str) -> None:
        found = await self._store.read(partial(threads.find_thread, tenant=tenant, id=thread))
        if found is not None:
            self._changed(found)
