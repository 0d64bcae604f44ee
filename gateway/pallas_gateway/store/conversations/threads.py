"""Threads: made, found, listed by their last activity, renamed, deleted, imported."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, bindparam, delete, insert, select, tuple_, update

from pallas_gateway.store.conversations.records import UNFINISHED, Thread
from pallas_gateway.store.conversations.rows import THREAD, columns_of, thread_of
from pallas_gateway.store.conversations.search import (
    add_title,
    add_words,
    having_words,
    remove_threads,
    remove_title,
    with_words,
)
from pallas_gateway.store.conversations.words import asked_words, words
from pallas_gateway.store.tables import MESSAGES, THREADS, insert_into

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from sqlalchemy import ColumnElement, Connection, FromClause, Select
    from sqlalchemy.sql.dml import ReturningInsert

    from pallas_gateway.store.conversations.records import Cursor, Message

_FIND = select(*THREAD).where(THREADS.c.tenant == bindparam("tenant_"), THREADS.c.id == bindparam("thread_"))
_FIND_SESSION = select(*THREAD).where(
    THREADS.c.tenant == bindparam("tenant_"),
    THREADS.c.owner == bindparam("owner_"),
    THREADS.c.agent_key == bindparam("key"),
    THREADS.c.session == bindparam("session_"),
)


LOOKED_AT_ONCE = 100
"""Threads of a list that are looked for words without the index at a time."""
LOOKED_AT = 10_000
"""Messages of them all, about."""
COMMON = 8
"""As long as one of so many threads has the words, it is gone on with that: the index would list all that have them."""

_ADDING: dict[str, ReturningInsert[Any]] = {}
"""Kind of database → the statement that adds a thread."""


def create_thread(
    connection: Connection,
    *,
    tenant: str,
    id: str,  # noqa: A002 - as the column is called
    agent: str,
    agent_key: str,
    owner: str,
    title: str = "",
    session: str | None = None,
) -> Thread:
    """Make a thread, or find the one that was made with the same id or the same session before.

    What may stand in it, and how long it may be, was looked at before.

    Raises:
        ValueError: the id is that of another owner's thread.
    """
    now = _now()
    thread = Thread(
        tenant=tenant,
        id=id,
        agent=agent,
        agent_key=agent_key,
        owner=owner,
        title=title,
        session=session,
        created=now,
        active=now,
    )
    return _add(connection, thread)[0]


def find_thread(connection: Connection, *, tenant: str, id: str) -> Thread | None:  # noqa: A002
    """The thread of that id."""
    found = connection.execute(_FIND, {"tenant_": tenant, "thread_": id}).one_or_none()
    return None if found is None else thread_of(found)


def find_session(
    connection: Connection, *, tenant: str, owner: str, agent_key: str, session: str
) -> Thread | None:
    """The thread that its owner calls so, with this agent."""
    given = {"tenant_": tenant, "owner_": owner, "key": agent_key, "session_": session}
    found = connection.execute(_FIND_SESSION, given).one_or_none()
    return None if found is None else thread_of(found)


def rename_thread(connection: Connection, *, tenant: str, id: str, title: str) -> bool:  # noqa: A002
    """Give a thread a title; whether there is one of that id."""
    remove_title(connection, tenant=tenant, thread=id)
    changed = connection.execute(
        update(THREADS).where(_is(tenant, id)).values(title=title, words=words(title))
    ).rowcount
    add_title(connection, tenant=tenant, thread=id)
    return bool(changed)


def delete_thread(connection: Connection, *, tenant: str, id: str) -> bool:  # noqa: A002
    """Delete a thread with its messages, also while a turn has it; whether there was one of that id."""
    remove_threads(connection, tenant=tenant, threads=[id])
    return bool(connection.execute(delete(THREADS).where(_is(tenant, id))).rowcount)


def list_threads(
    connection: Connection,
    *,
    tenant: str,
    owner: str | None,
    agent_keys: Collection[str] | None,
    query: str | None,
    after: Cursor | None,
    limit: int,
) -> list[Thread]:
    """Threads, those with the newest activity first.

    Args:
        connection: within a transaction.
        tenant: whose they are.
        owner: whose alone; None for all.
        agent_keys: with which agents alone; None for all.
        query: words that the title, or one message, has; a blank one is none.
        after: the `cursor` of the last thread of the page before.
        limit: how many at most.
    """
    if agent_keys is not None and not agent_keys:
        return []

    def wanted(of: FromClause) -> Select[tuple[Any, ...]]:
        found = select(*(of.c[column.name] for column in THREAD)).where(of.c.tenant == tenant)
        if owner is not None:
            found = found.where(of.c.owner == owner)
        if agent_keys is not None:
            found = found.where(of.c.agent_key.in_(agent_keys))
        return found

    if query is None or not query.strip():
        return _listed(connection, wanted(THREADS), THREADS, after, limit)
    if not asked_words(query):
        return []
    found: list[Thread] = []
    looked_at = messages = 0
    while len(found) < limit and messages < LOOKED_AT and len(found) * COMMON >= looked_at:
        some = _listed(connection, wanted(THREADS), THREADS, after, LOOKED_AT_ONCE)
        found += with_words(connection, some, query)
        if len(some) < LOOKED_AT_ONCE:
            return found[:limit]
        after = some[-1].cursor
        looked_at += len(some)
        messages += sum(each.length for each in some)
    if len(found) < limit and (having := having_words(connection, tenant, query)) is not None:
        of, condition = having
        found += _listed(connection, wanted(of).where(condition), of, after, limit - len(found))
    return found[:limit]


def _listed(
    connection: Connection,
    wanted: Select[tuple[Any, ...]],
    of: FromClause,
    after: Cursor | None,
    limit: int,
) -> list[Thread]:
    if after is not None:
        place = tuple_(
            bindparam(None, after.active, THREADS.c.active.type), bindparam(None, after.id, THREADS.c.id.type)
        )
        wanted = wanted.where(tuple_(of.c.active, of.c.id) < place)
    wanted = wanted.order_by(of.c.active.desc(), of.c.id.desc()).limit(limit)
    return [thread_of(found) for found in connection.execute(wanted)]


def newest_threads(
    connection: Connection, *, tenant: str, owner: str, agent_keys: Collection[str] | None, limit: int
) -> list[Thread]:
    """An owner's threads with the newest activity: those with a turn under way come first.

    Args:
        connection: within a transaction.
        tenant: whose they are.
        owner: whose alone.
        agent_keys: with which agents alone; None for all.
        limit: how many at most.
    """
    wanted = select(*THREAD).where(
        THREADS.c.tenant == tenant, THREADS.c.owner == owner, THREADS.c.turn.is_not(None)
    )
    if agent_keys is not None:
        wanted = wanted.where(THREADS.c.agent_key.in_(agent_keys))
    wanted = wanted.order_by(THREADS.c.active.desc(), THREADS.c.id.desc()).limit(limit)
    under_way = [thread_of(found) for found in connection.execute(wanted)]
    others = list_threads(
        connection, tenant=tenant, owner=owner, agent_keys=agent_keys, query=None, after=None, limit=limit
    )
    return list({each.id: each for each in (*under_way, *others)}.values())[:limit]


def import_thread(
    connection: Connection,
    *,
    tenant: str,
    id: str,  # noqa: A002 - as the column is called
    agent: str,
    agent_key: str,
    owner: str,
    title: str = "",
    messages: Sequence[Message],
) -> Thread:
    """Make a thread with messages that it had elsewhere: in their order, numbered anew, pending ones as `error`.

    Its own times are now. The same call again finds what was made.

    Raises:
        ValueError: the id is that of another owner's thread.
    """
    now = _now()
    thread = Thread(
        tenant=tenant,
        id=id,
        agent=agent,
        agent_key=agent_key,
        owner=owner,
        title=title,
        created=now,
        last_turn=now if messages else None,
        active=now,
        length=len(messages),
    )
    thread, is_new = _add(connection, thread)
    if is_new and messages:
        columns = []
        for index, message in enumerate(messages):
            is_pending = message.status == "pending"
            columns.append(
                columns_of(
                    tenant,
                    id,
                    index,
                    message.turn,
                    message.row,
                    status="error" if is_pending else message.status,
                    error=UNFINISHED if is_pending else message.error,
                    created=message.created,
                )
            )
        connection.execute(insert(MESSAGES), columns)
        add_words(connection, tenant=tenant, thread=id, start=0)
    return thread


def _adding(connection: Connection) -> ReturningInsert[Any]:
    """The statement that adds a thread; made once for a kind of database, which takes longer than to run it."""
    kind = connection.dialect.name
    if kind not in _ADDING:
        add = insert_into(connection, THREADS)
        _ADDING[kind] = add.on_conflict_do_nothing().returning(*THREAD)
    return _ADDING[kind]


def _add(connection: Connection, thread: Thread) -> tuple[Thread, bool]:
    """The thread as it is in the table, and whether it was added now."""
    columns = {column.name: getattr(thread, column.name) for column in THREAD}
    given = {**columns, "words": words(thread.title)}
    made = connection.execute(_adding(connection), given).one_or_none()
    if made is not None:
        if thread.title:
            add_title(connection, tenant=thread.tenant, thread=thread.id)
        return thread_of(made), True
    found = find_thread(connection, tenant=thread.tenant, id=thread.id)
    if found is None and thread.session is not None:
        found = find_session(
            connection,
            tenant=thread.tenant,
            owner=thread.owner,
            agent_key=thread.agent_key,
            session=thread.session,
        )
    if found is None or found.owner != thread.owner:
        raise ValueError("the id is another thread's")
    return found, False


def _is(tenant: str, thread: str) -> ColumnElement[bool]:
    return and_(THREADS.c.tenant == tenant, THREADS.c.id == thread)


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
