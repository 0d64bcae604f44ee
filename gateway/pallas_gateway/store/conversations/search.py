"""Threads found by words of their titles or of their messages: by an index of words, in each database its own.

The threads of a list are walked by their last activity, and those that have the words are taken: no order has to be
made of all that were found, however common a word is. What is common is among the first threads already, which are
looked at without the index: that would list all messages that have it.

PostgreSQL keeps its index itself. In SQLite a row is in the index while its column `words` is not null: whoever fills
that column, or deletes such a row, calls the function for it here, in the same transaction.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, literal, select, text

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

    from sqlalchemy import Connection, Select

    from pallas_gateway.store.conversations.records import Thread

FEW = 2000
"""Messages and titles with the words of a query: as long as no more have them, their threads are named one by one."""

# The number of a row of `thread_words` begins with its thread's.
_SQLITE = "SELECT rowid >> 24 FROM thread_words WHERE thread_words MATCH :searched"
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
_POSTGRES_FEW = "threads.id = ANY(:found)"
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


def having_words[T: tuple[Any, ...]](
    connection: Connection, wanted: Select[T], tenant: str, query: str
) -> Select[T] | None:
    """Of the threads that are wanted, those whose title, or one of whose messages, has all words of a query.

    Case does not matter, and the beginning of a word is enough from three letters on. None where no thread has it, as
    where the query has no word.
    """
    is_sqlite = connection.dialect.name == "sqlite"
    asked = sqlite_query(query) if is_sqlite else postgres_query(query)
    if asked is None:
        return None
    given = {"searched": asked} if is_sqlite else {"searched": asked, "searched_tenant": tenant}
    look = text(f"{_SQLITE if is_sqlite else _POSTGRES} LIMIT :most")
    found = connection.execute(look, {**given, "most": FEW + 1}).scalars().all()
    if len(found) > FEW:
        return wanted.where(text(_SQLITE_MANY if is_sqlite else _POSTGRES_MANY).bindparams(**given))
    if not found:
        return None
    named = list(set(found))
    if not is_sqlite:
        return wanted.where(text(_POSTGRES_FEW).bindparams(found=named))
    # Else it would walk all threads, so as not to sort these.
    few = wanted.with_hint(THREADS, "NOT INDEXED", "sqlite")
    return few.where(text(_SQLITE_FEW).bindparams(found=json.dumps(named)))
