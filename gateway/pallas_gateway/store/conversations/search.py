"""Threads found by words of their titles or of their messages: by an index of words, in each database its own.

The threads of a list are walked by their last activity, and those that have the words are taken: no order has to be
made of all that were found, however common a word is. What is common is among the first threads already, which are
looked at without the index: that would list all messages that have it.

PostgreSQL keeps its index itself. In SQLite a row is in the index while its column `words` is not null: whoever fills
that column, or deletes such a row, calls the function for it here, in the same transaction.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sqlalchemy import func, literal, select, text, true

from pallas_gateway.store.conversations.words import (
    asked_words,
    has_all,
    piece_of,
    postgres_query,
    sqlite_query,
    words,
)
from pallas_gateway.store.tables import MESSAGES, THREADS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import ColumnElement, Connection, FromClause, TextClause

    from pallas_gateway.store.conversations.records import Thread

FEW = 2000
"""Messages and titles with the words of a query: as long as no more have them, their threads are named one by one."""

# The number of a row of `thread_words` begins with its thread's.
_SQLITE = "SELECT rowid >> 24 FROM thread_words WHERE thread_words MATCH :searched"
_SQLITE_ROWS = text("SELECT rowid FROM thread_words WHERE thread_words MATCH :searched LIMIT :most")
_SQLITE_KEPT = """
SELECT threads.number FROM json_each(:found) AS found JOIN threads ON threads.number = found.value >> 24
LEFT JOIN messages ON messages.tenant = threads.tenant AND messages.thread = threads.id
    AND messages.turn_index = found.value & 16777215
WHERE """
_SQLITE_HAS = """instr(' ' || CASE WHEN found.value & 16777215 = 16777215 THEN threads.words ELSE messages.words END
    || ' ', :piece{}) > 0"""
_SQLITE_FEW = "threads.number IN (SELECT value FROM json_each(:found))"
# The plus sign keeps SQLite from beginning with what was found, which it would have to sort.
_SQLITE_MANY = f"+threads.number IN ({_SQLITE})"
# An expression of the tenant, so that its index is not read for all that it has.
_POSTGRES = """
SELECT messages.thread FROM messages
WHERE messages.tenant || '' = :searched_tenant
AND array_to_tsvector(string_to_array(messages.words, ' ')) @@ CAST(:searched AS tsquery)
UNION ALL
SELECT titled.id FROM threads AS titled
WHERE titled.tenant || '' = :searched_tenant
AND array_to_tsvector(string_to_array(titled.words, ' ')) @@ CAST(:searched AS tsquery)"""
# Of a beginning of a word nothing is known before it is looked for: PostgreSQL guesses that it is common, and then
# that reading all rows would soon find as many as are asked for. In this transaction alone.
_BY_INDEX = text("SET LOCAL enable_seqscan = off")
_POSTGRES_FEW = "threads.tenant = :searched_tenant AND threads.id = ANY(:found)"
# Without IS TRUE it may become a join that looks for each thread anew, where the tables have no statistics yet.
_POSTGRES_MANY = f"(threads.id IN ({_POSTGRES})) IS TRUE"

# 16777215 stands for the title, where the turn_index of a message would be.
_ADD = text(
    """INSERT INTO thread_words (rowid, words)
    SELECT threads.number << 24 | messages.turn_index, messages.words
    FROM threads JOIN messages ON messages.tenant = threads.tenant AND messages.thread = threads.id
    WHERE threads.tenant = :tenant AND threads.id = :thread
    AND messages.turn_index >= :start AND messages.words IS NOT NULL"""
)
_ADD_TITLE = text(
    """INSERT INTO thread_words (rowid, words)
    SELECT number << 24 | 16777215, words FROM threads
    WHERE tenant = :tenant AND id = :thread AND words IS NOT NULL"""
)
# There is no text in it: what is taken out has to be named.
_REMOVE = text(
    """INSERT INTO thread_words (thread_words, rowid, words)
    SELECT 'delete', threads.number << 24 | messages.turn_index, messages.words
    FROM threads JOIN messages ON messages.tenant = threads.tenant AND messages.thread = threads.id
    WHERE threads.tenant = :tenant AND threads.id = :thread
    AND messages.turn_index >= :start AND messages.words IS NOT NULL"""
)
_REMOVE_TITLE = text(
    """INSERT INTO thread_words (thread_words, rowid, words)
    SELECT 'delete', number << 24 | 16777215, words FROM threads
    WHERE tenant = :tenant AND id = :thread AND words IS NOT NULL"""
)


def add_words(connection: Connection, *, tenant: str, thread: str, start: int) -> None:
    """Put the messages of a thread from an index on, whose words were filled now, into the index."""
    if connection.dialect.name == "sqlite":
        connection.execute(_ADD, {"tenant": tenant, "thread": thread, "start": start})


def remove_words(connection: Connection, *, tenant: str, thread: str, start: int) -> None:
    """Take the messages of a thread from an index on out of the index, before they are deleted."""
    if connection.dialect.name == "sqlite":
        connection.execute(_REMOVE, {"tenant": tenant, "thread": thread, "start": start})


def add_title(connection: Connection, *, tenant: str, thread: str) -> None:
    """Put the title of a thread into the index."""
    if connection.dialect.name == "sqlite":
        connection.execute(_ADD_TITLE, {"tenant": tenant, "thread": thread})


def remove_title(connection: Connection, *, tenant: str, thread: str) -> None:
    """Take the title of a thread out of the index, before it changes."""
    if connection.dialect.name == "sqlite":
        connection.execute(_REMOVE_TITLE, {"tenant": tenant, "thread": thread})


def remove_threads(connection: Connection, *, tenant: str, threads: Sequence[str]) -> None:
    """Take threads out of the index, before they are deleted."""
    if connection.dialect.name == "sqlite" and threads:
        given = [{"tenant": tenant, "thread": thread, "start": 0} for thread in threads]
        connection.execute(_REMOVE, given)
        connection.execute(_REMOVE_TITLE, given)


def with_words(connection: Connection, threads: Sequence[Thread], query: str) -> list[Thread]:
    """Those whose title, or one of whose messages, has all words of a query; all of one tenant, looked at one by one.

    Where the query has no word, none has it.
    """
    asked = asked_words(query)
    if not asked or not threads:
        return []
    place = func.instr if connection.dialect.name == "sqlite" else func.strpos
    kept = literal(" ") + MESSAGES.c.words + literal(" ")
    found = connection.execute(
        select(MESSAGES.c.thread)
        .where(
            MESSAGES.c.tenant == threads[0].tenant,
            MESSAGES.c.thread.in_([each.id for each in threads]),
            MESSAGES.c.words.is_not(None),
            *(place(kept, piece_of(each)) > 0 for each in asked),
        )
        .distinct()
    )
    ids = set(found.scalars())
    return [each for each in threads if each.id in ids or has_all(words(each.title), asked)]


def having_words(
    connection: Connection, tenant: str, query: str
) -> tuple[FromClause, ColumnElement[bool] | TextClause] | None:
    """The threads whose title, or one of whose messages, has all words of a query: of which table, and by what.

    Case does not matter, and the beginning of a word is enough from three letters on. None where no thread has it, as
    where the query has no word.
    """
    asked = asked_words(query)
    if not asked:
        return None
    if connection.dialect.name == "sqlite":
        numbers = _few_in_sqlite(connection, asked)
        many = text(_SQLITE_MANY).bindparams(searched=sqlite_query(asked))
        few = text(_SQLITE_FEW).bindparams(found=json.dumps(numbers))
        number = None if numbers is None else len(numbers)
    else:
        given = {"searched": postgres_query(asked), "searched_tenant": tenant}
        look = text(f"{_POSTGRES} LIMIT :most")
        connection.execute(_BY_INDEX)
        found = connection.execute(look, {**given, "most": FEW + 1}).scalars().all()
        ids = list(set(found))
        many = text(_POSTGRES_MANY).bindparams(**given)
        few = text(_POSTGRES_FEW).bindparams(found=ids, searched_tenant=tenant)
        number = None if len(found) > FEW else len(ids)
    if number is None:
        return THREADS, many
    # The bound keeps them a table of their own: else all threads may be walked, so as not to sort these.
    return (select(THREADS).where(few).limit(number).subquery("few"), true()) if number else None


def _few_in_sqlite(connection: Connection, asked: Sequence[tuple[str, bool]]) -> list[int] | None:
    """The numbers of the threads that have all words, None where they may be many.

    To look for the beginning of a word FTS5 lists all rows with it, however few have the other words. So what is common
    is looked for in the rows that have the others.
    """

    def rows(searched: str) -> Sequence[int]:
        return connection.execute(_SQLITE_ROWS, {"searched": searched, "most": FEW + 1}).scalars().all()

    common = [each for each in asked if len(asked) > 1 and len(rows(f'"{each[0]}"')) > FEW]
    others = [each for each in asked if each not in common]
    if not others:
        return None
    found = rows(sqlite_query(others))
    if len(found) > FEW:
        return None
    if not common:
        return list({row >> 24 for row in found})
    conditions = " AND ".join(_SQLITE_HAS.format(place) for place in range(len(common)))
    pieces = {f"piece{place}": piece_of(each) for place, each in enumerate(common)}
    kept = connection.execute(text(_SQLITE_KEPT + conditions), {"found": json.dumps(list(found)), **pieces})
    return list(set(kept.scalars()))
