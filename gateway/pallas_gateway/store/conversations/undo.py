"""A turn that never was: its request was refused before anything happened, and leaves no trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import and_, delete, func, select, update

from pallas_gateway.store.conversations.search import remove_words
from pallas_gateway.store.conversations.threads import delete_thread
from pallas_gateway.store.tables import MESSAGES, THREADS

if TYPE_CHECKING:
    from sqlalchemy import Connection


def undo_turn(connection: Connection, *, tenant: str, thread: str, turn: str, with_thread: bool) -> bool:
    """Take back a turn that has the thread; whether it had it.

    Args:
        connection: within a transaction that may write.
        tenant: whose it is.
        thread: its id.
        turn: the turn's id.
        with_thread: the thread as well, where nothing is left in it.
    """
    is_thread = and_(THREADS.c.tenant == tenant, THREADS.c.id == thread)
    taken = select(THREADS.c.length).where(is_thread, THREADS.c.turn == turn).with_for_update()
    if connection.execute(taken).one_or_none() is None:
        return False
    of_thread = and_(MESSAGES.c.tenant == tenant, MESSAGES.c.thread == thread)
    of_turn = and_(of_thread, MESSAGES.c.turn == turn)
    start = select(func.min(MESSAGES.c.turn_index)).where(of_turn)
    # Nobody has written behind it: while a turn has a thread, nobody else does.
    length = connection.execute(start).scalar_one()
    remove_words(connection, tenant=tenant, thread=thread, start=length)
    connection.execute(delete(MESSAGES).where(of_turn))
    if with_thread and not length:
        return delete_thread(connection, tenant=tenant, id=thread)
    free = {"turn": None, "process": None, "turn_first": None, "turn_settled": None, "turn_replaces": None}
    connection.execute(update(THREADS).where(is_thread).values(length=length, **free))
    return True
