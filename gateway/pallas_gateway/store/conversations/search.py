"""Threads found by words of their titles or of their messages: by an index of words, in each database its own.

The threads of a list are walked by their last activity, and those that have the words are taken: no order has to be
made of all that were found, however common a word is.

PostgreSQL keeps its index itself. In SQLite a row is in the index while its column `words` is not null: whoever fills
that column, or deletes such a row, calls the function for it here, in the same transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import text

from pallas_gateway.store.conversations.words import postgres_query, sqlite_query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, TextClause

# The number of a row of `thread_words` begins with its thread's. The plus sign keeps SQLite from beginning with what
# was found, which it would have to sort.
_SQLITE = "+threads.number IN (SELECT rowid >> 24 FROM thread_words WHERE thread_words MATCH :searched)"
_POSTGRES = """
(threads.id IN (
    SELECT messages.thread FROM messages
    WHERE messages.tenant = :searched_tenant
    AND array_to_tsvector(string_to_array(messages.words, ' ')) @@ CAST(:searched AS tsquery))
OR array_to_tsvector(string_to_array(threads.words, ' ')) @@ CAST(:searched AS tsquery))"""

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


def has_words(connection: Connection, tenant: str, query: str) -> TextClause | None:
    """The condition that a thread's title, or one of its messages, has all words of a query.

    Case does not matter, and the beginning of a word is enough from three letters on. None where the query has no word:
    then no thread has it.
    """
    if connection.dialect.name == "sqlite":
        asked = sqlite_query(query)
        return None if asked is None else text(_SQLITE).bindparams(searched=asked)
    asked = postgres_query(query)
    return None if asked is None else text(_POSTGRES).bindparams(searched=asked, searched_tenant=tenant)
