"""The rows of sessions: browsers that are logged in.

Knows no request and no text of a session: rows are found by its digest. That a session was closed counts as a change of
tokens (`tokens.TOPIC`), so that another process forgets it, too.
"""

from __future__ import annotations

import datetime as dt
import json
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import and_, delete, func, insert, or_, select, update

from pallas_gateway.identity.principal import TENANT
from pallas_gateway.identity.sources import Issued, StoredSession
from pallas_gateway.store import tokens
from pallas_gateway.store.revisions import count_change
from pallas_gateway.store.tables import SESSIONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import ColumnElement, Connection, Row

    from pallas_gateway.store.database import Store

LAST_USED_INTERVAL = 60.0
"""Seconds: how exact the time of the last use is."""


class SessionRecords:
    """`StoredSessions`: each method raises `StoreError` when the database does not answer."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def find(self, digests: Sequence[str]) -> Mapping[str, StoredSession]:
        """Those that there are, by digest, expired ones included. A row that is no session's is none."""
        return await self._store.read(partial(_find, digests=digests))

    async def open(self, session: StoredSession, most: int) -> None:
        """Keep it; of those of the same token or the same subject, `most` stay, the newest."""
        await self._store.write(partial(_open, session=session, most=most))

    async def close(self, digest: str) -> bool:
        """Forget it, and count that as a change of tokens; whether there was one."""
        return await self._store.write(partial(_close, digest=digest), frees=True)

    async def touch(self, used: Mapping[str, float]) -> None:
        """Note when sessions were used last: digest → seconds since the epoch. A power loss may undo it."""
        await self._store.write(partial(_touch, used=used), durable=False)

    async def forget(self, now: float, idle: float) -> int:
        """Forget those that have expired, or were not used for `idle` seconds; how many they were."""
        return await self._store.write(partial(_forget, now=now, idle=idle))


def _find(connection: Connection, digests: Sequence[str]) -> dict[str, StoredSession]:
    query = select(SESSIONS).where(SESSIONS.c.tenant == TENANT, SESSIONS.c.digest.in_(digests))
    rows = connection.execute(query)
    return {row.digest: found for row in rows if (found := _session(row)) is not None}


def _open(connection: Connection, session: StoredSession, most: int) -> None:
    connection.execute(
        insert(SESSIONS).values(
            tenant=TENANT,
            digest=session.digest,
            credential=session.credential,
            principal=None if session.issued is None else _written(session.issued),
            created=_moment(session.created),
            expires=_moment(session.expires),
            last_used=_moment(session.last_used),
        )
    )
    same = and_(SESSIONS.c.tenant == TENANT, _same(session))
    query = select(SESSIONS.c.digest).where(same)
    newest_first = query.order_by(SESSIONS.c.created.desc(), SESSIONS.c.digest).offset(most)
    surplus = connection.execute(newest_first).scalars().all()
    if surplus:
        connection.execute(delete(SESSIONS).where(same, SESSIONS.c.digest.in_(surplus)))
        count_change(connection, TENANT, tokens.TOPIC)


def _close(connection: Connection, digest: str) -> bool:
    wanted = and_(SESSIONS.c.tenant == TENANT, SESSIONS.c.digest == digest)
    if not connection.execute(delete(SESSIONS).where(wanted)).rowcount:
        return False
    count_change(connection, TENANT, tokens.TOPIC)
    return True


def _touch(connection: Connection, used: Mapping[str, float]) -> None:
    for digest, seconds in used.items():
        before = _moment(seconds - LAST_USED_INTERVAL)
        connection.execute(
            update(SESSIONS)
            .where(
                SESSIONS.c.tenant == TENANT,
                SESSIONS.c.digest == digest,
                or_(SESSIONS.c.last_used.is_(None), SESSIONS.c.last_used <= before),
            )
            .values(last_used=_moment(seconds))
        )


def _forget(connection: Connection, now: float, idle: float) -> int:
    last = func.coalesce(SESSIONS.c.last_used, SESSIONS.c.created)
    over = or_(SESSIONS.c.expires <= _moment(now), last <= _moment(now - idle))
    return connection.execute(delete(SESSIONS).where(over)).rowcount


def _same(session: StoredSession) -> ColumnElement[bool]:
    """Of the same token, or the same subject."""
    if session.issued is None:
        return SESSIONS.c.credential == session.credential
    begins = _beginning(session.issued.id)
    # Not LIKE, which takes no account of case in SQLite.
    return and_(SESSIONS.c.credential.is_(None), func.substr(SESSIONS.c.principal, 1, len(begins)) == begins)


def _beginning(id_: str) -> str:
    """How the JSON of that subject begins, and of no other one."""
    return json.dumps({"id": id_}).removesuffix("}") + ","


def _written(issued: Issued) -> str:
    return json.dumps({"id": issued.id, "name": issued.name, "groups": issued.groups})


def _session(row: Row[tuple[object, ...]]) -> StoredSession | None:
    """The row as a session. A database can be written by others: what is no session's row counts as none."""
    try:
        return StoredSession(
            digest=row.digest,
            credential=row.credential,
            issued=None if row.principal is None else _issued(row.principal),
            created=row.created.timestamp(),
            expires=row.expires.timestamp(),
            last_used=(row.last_used or row.created).timestamp(),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _issued(text: str) -> Issued:
    found = json.loads(text)
    id_, name, groups = found["id"], found["name"], found["groups"]
    if not all(isinstance(each, str) for each in (id_, name, *groups)):
        raise TypeError("who it is is said in texts")
    return Issued(id=id_, name=name, groups=tuple(groups))


def _moment(seconds: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(seconds, dt.UTC)
