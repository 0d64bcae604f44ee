"""Threads that go: those of deleted agents and those of long ago; in portions, so that no transaction is long."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import and_, delete, select

from pallas_gateway.store.conversations.search import remove_threads
from pallas_gateway.store.tables import THREADS

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Connection

    from pallas_gateway.store.conversations.rows import Found

MOST_MESSAGES = 5_000
"""How many messages one portion deletes, but for a longer thread, which goes whole."""


class Deleted(NamedTuple):
    """A thread that is no more."""

    tenant: str
    id: str
    agent: str
    owner: str


_DELETED = tuple(THREADS.c[name] for name in Deleted._fields)


def agent_keys(connection: Connection, *, tenant: str) -> set[tuple[str, str]]:
    """The agents, name and key, that have threads: one look-up in an index for each."""
    found: set[tuple[str, str]] = set()
    after = ""
    while True:
        row = connection.execute(
            select(THREADS.c.agent, THREADS.c.agent_key)
            .where(THREADS.c.tenant == tenant, THREADS.c.agent_key > after)
            .order_by(THREADS.c.agent_key)
            .limit(1)
        ).one_or_none()
        if row is None:
            return found
        found.add((row.agent, row.agent_key))
        after = row.agent_key


def delete_threads_of_agent(
    connection: Connection, *, tenant: str, agent_key: str, limit: int
) -> list[Deleted]:
    """Delete threads of an agent, also those with a turn under way; which they were: none when none is left."""
    rows = connection.execute(
        select(*_DELETED, THREADS.c.length)
        .where(THREADS.c.tenant == tenant, THREADS.c.agent_key == agent_key)
        .limit(limit)
    ).all()
    return _delete(connection, tenant, rows)


def forget_threads(connection: Connection, *, before: dt.datetime, limit: int) -> list[Deleted]:
    """Delete threads, of whatever tenant, whose last activity was before then; which: none when none is left.

    Never one with a turn under way.
    """
    for tenant in _tenants(connection):
        rows = connection.execute(
            select(*_DELETED, THREADS.c.length)
            .where(THREADS.c.tenant == tenant, THREADS.c.active < before, THREADS.c.turn.is_(None))
            .order_by(THREADS.c.active)
            .limit(limit)
            .with_for_update(skip_locked=True)
        ).all()
        if rows:
            return _delete(connection, tenant, rows)
    return []


def _delete(connection: Connection, tenant: str, rows: Sequence[Found]) -> list[Deleted]:
    found: list[Deleted] = []
    messages = 0
    for row in rows:
        messages += row.length
        if found and messages > MOST_MESSAGES:
            break
        found.append(Deleted(row.tenant, row.id, row.agent, row.owner))
    if found:
        ids = [each.id for each in found]
        remove_threads(connection, tenant=tenant, threads=ids)
        connection.execute(delete(THREADS).where(and_(THREADS.c.tenant == tenant, THREADS.c.id.in_(ids))))
    return found


def _tenants(connection: Connection) -> Iterator[str]:
    """Those that have threads."""
    after = ""
    while True:
        found = connection.execute(
            select(THREADS.c.tenant).where(THREADS.c.tenant > after).order_by(THREADS.c.tenant).limit(1)
        ).scalar_one_or_none()
        if found is None:
            return
        yield found
        after = found
