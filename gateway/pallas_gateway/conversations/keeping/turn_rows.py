"""The rows of a turn in the store, from its first round to its end, and what becomes of a turn that was cut off.

Knows the store's functions and the journal; must not know where a turn's words come from.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pallas_common.logs.setup import get_logger
from pallas_gateway.store.conversations import turns as rows_of_turns
from pallas_gateway.store.conversations.undo import undo_turn
from pallas_gateway.store.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection

    from pallas_gateway.conversations.keeping.journal import Journal
    from pallas_gateway.store.conversations.records import Row, Thread
    from pallas_gateway.store.database import Store

    class OfTurn[T](Protocol):
        """A function of the store that is about one turn."""

        def __call__(self, connection: Connection, /, *, tenant: str, thread: str, turn: str) -> T: ...


KEEP_FOR = 30.0
"""Seconds for which a turn that is over waits for a store that is away."""
KEEP_AGAIN = 0.5

_log = get_logger("pallas.gateway.conversations")


class Said(NamedTuple):
    """The rows of an answer as far as it has come."""

    settled: Sequence[Row] = ()
    """Those that change no more."""
    pending: Sequence[Row] = ()
    """Those behind them, as they are now."""


class TurnRows:
    """The rows of one turn in the store.

    Args:
        thread: whose turn it is.
        turn: its id.
        is_new_thread: whether the thread was made for it.
        journal: its own.
        changed: is told after each change.
    """

    def __init__(
        self,
        store: Store,
        thread: Thread,
        turn: str,
        journal: Journal,
        changed: Callable[[], object],
        *,
        is_new_thread: bool,
    ) -> None:
        self._store = store
        self._thread = thread
        self._turn = turn
        self._journal = journal
        self._changed = changed
        self._is_new_thread = is_new_thread
        self._wanted: Callable[[], Said] | None = None
        self._news = asyncio.Event()
        self._closed = False

    def note(self, entry: Sequence[object]) -> None:
        """Have it survive a crash before anybody is told of it."""
        self._journal.add(entry)

    def keep(self, said: Callable[[], Said]) -> None:
        """Have written soon what this gives then: of many calls at once, not each makes all of the rows."""
        self._wanted = said
        self._news.set()

    async def run(self) -> None:
        """Write what is to be kept, until `close`; what cannot be written the end of the turn will."""
        while not self._closed:
            await self._news.wait()
            self._news.clear()
            if (wanted := self._wanted) is not None:
                self._wanted = None
                said = wanted()
                keep = partial(rows_of_turns.keep_round, settled=said.settled, pending=said.pending)
                with contextlib.suppress(StoreError):
                    await self._write(keep)
                    self._changed()

    def close(self) -> None:
        """The turn has ended: what is still to be written is part of its end."""
        self._closed = True
        self._wanted = None
        self._news.set()

    async def finish(self, rows: Sequence[Row]) -> int | None:
        """All of them, for good; the index of the last, None where the turn does not have the thread any more.

        Raises:
            StoreError: the store was away for too long.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + KEEP_FOR
        while True:
            try:
                index = await self._write(partial(rows_of_turns.finish_turn, rows=rows))
            except StoreError as error:
                if loop.time() > until:
                    raise
                _log.warning(f"a turn is over and cannot be kept yet: {error}")
                await asyncio.sleep(KEEP_AGAIN)
            else:
                self._over()
                return index

    async def fail(self, why: str, said: Said) -> None:
        """It has failed with this; what is not settled of it becomes `error`.

        Raises:
            StoreError: it cannot be written now. The journal stays, for whoever makes up for it.
        """
        try:
            await self._write(partial(fail_with, said=said, why=why))
        finally:
            self._journal.close()
        self._over()

    async def undo(self) -> None:
        """The turn never was: the request was wrong, and nothing has happened.

        Raises:
            StoreError: it cannot be written now.
        """
        try:
            await self._write(partial(undo_turn, with_thread=self._is_new_thread))
        finally:
            self._journal.close()
        self._over()

    def _over(self) -> None:
        self._journal.remove()
        self._changed()

    async def _write[T](self, what: OfTurn[T]) -> T:
        def write(connection: Connection) -> T:
            return what(connection, tenant=self._thread.tenant, thread=self._thread.id, turn=self._turn)

        # A power loss may undo the last ones, unless the store's address asks for more; a SIGKILL never does.
        return await self._store.write(write, durable=False)


def fail_with(connection: Connection, *, tenant: str, thread: str, turn: str, said: Said, why: str) -> bool:
    """In one transaction: keep what a turn has said, and end it as one that failed.

    Returns:
        Whether it has failed, now or before; False if it has finished, or the thread is gone.
    """
    if said.settled or said.pending:
        rows_of_turns.keep_round(
            connection, tenant=tenant, thread=thread, turn=turn, settled=said.settled, pending=said.pending
        )
    return rows_of_turns.fail_turn(connection, tenant=tenant, thread=thread, turn=turn, why=why)
