"""The tables, as the code uses them; `migrations/` makes them, and a test compares the two.

The tenant comes first in every key: what one tenant has is found, and kept apart, by it.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, override

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)
from sqlalchemy.dialects import sqlite

from pallas_common.http.json_bounds import whole_text

if TYPE_CHECKING:
    from sqlalchemy import Connection, Dialect
    from sqlalchemy.dialects import postgresql
    from sqlalchemy.types import TypeEngine

HEAD = "0004"
"""The newest migration."""

VERSION_TABLE = "pallas_version"
"""Where the number of the last migration is kept: not by the name of alembic's own table, which others use as well."""

MOMENT_LENGTH = len("2026-03-12T10:00:00.000000Z")


class PlainText(TypeDecorator[str]):
    """A text, made a `whole_text` where it enters: as a value, and as what a value is compared with."""

    impl = Text
    cache_ok = True

    @override
    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else whole_text(value)


class Moment(TypeDecorator[dt.datetime]):
    """A time in UTC: with its zone in PostgreSQL, in SQLite as RFC 3339 text that sorts by time.

    What is no time comes out as it is, so that one bad row can be told from others.
    """

    impl = String
    cache_ok = True

    @override
    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "sqlite":
            return dialect.type_descriptor(String(MOMENT_LENGTH))
        return dialect.type_descriptor(DateTime(timezone=True))

    @override
    def process_bind_param(self, value: dt.datetime | None, dialect: Dialect) -> Any:
        if value is None or dialect.name != "sqlite":
            return value
        text = value.astimezone(dt.UTC).isoformat(timespec="microseconds")
        return f"{text.removesuffix('+00:00')}Z"

    @override
    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        try:
            moment = dt.datetime.fromisoformat(value) if isinstance(value, str) else value
            return None if moment is None else moment.astimezone(dt.UTC)
        except (ValueError, AttributeError):
            return value


METADATA = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

INSTANCE = Table(
    "instance",
    METADATA,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("id", PlainText, nullable=False, comment="random; the state directory has it, too"),
    Column("deployment", PlainText, nullable=False, comment="its name, for people"),
    Column("host", PlainText, nullable=False, comment="of its machine, for people"),
    Column("created", Moment, nullable=False),
    Column("seen", Moment, nullable=False, comment="when its gateway was there last; to the minute"),
    CheckConstraint("number = 1", name="number"),
    comment="The deployment whose store it is: one row",
)

TOKENS = Table(
    "tokens",
    METADATA,
    Column("tenant", PlainText, nullable=False),
    Column("id", PlainText, nullable=False),
    Column("name", PlainText, nullable=False),
    Column("role", PlainText, nullable=False),
    Column("agent", PlainText),
    Column("agent_uid", PlainText),
    Column("grants", PlainText, nullable=False, comment="JSON: a list of texts"),
    Column("digest", PlainText, nullable=False, comment="SHA-256 of the token, hexadecimal"),
    Column("created", Moment, nullable=False),
    Column("created_by", PlainText, comment="the id of a principal, or what made it"),
    Column("expires", Moment),
    Column("revoked", Moment),
    Column("last_used", Moment, comment="to the minute"),
    Column("rotated_from", PlainText, comment="the id of the token that it replaced"),
    Column(
        "subject", PlainText, comment="the id of the first token of its chain of rotations; null: its own"
    ),
    PrimaryKeyConstraint("tenant", "id"),
    UniqueConstraint("digest"),
    CheckConstraint("role IN ('human', 'agent')", name="role"),
    Index(None, "tenant", "agent"),
)

REVISIONS = Table(
    "revisions",
    METADATA,
    Column("tenant", PlainText, nullable=False),
    Column("topic", PlainText, nullable=False),
    Column("revision", BigInteger, nullable=False),
    PrimaryKeyConstraint("tenant", "topic"),
    comment="Counts changes, so that other processes notice them",
)

SESSIONS = Table(
    "sessions",
    METADATA,
    Column("tenant", PlainText, nullable=False),
    Column("digest", PlainText, nullable=False, comment="SHA-256 of the cookie's random text, hexadecimal"),
    Column(
        "credential", PlainText, comment="digest of the token that it was opened with; null: by an issuer"
    ),
    Column("principal", PlainText, comment="JSON: who the issuer said that it is"),
    Column("created", Moment, nullable=False),
    Column("expires", Moment, nullable=False),
    Column("last_used", Moment),
    PrimaryKeyConstraint("tenant", "digest"),
    Index(None, "expires"),
    comment="Browsers that are logged in",
)

THREADS = Table(
    "threads",
    METADATA,
    # SQLite keeps the number of a row only where it has a name, and the index of words is by it.
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("tenant", PlainText, nullable=False),
    Column("id", PlainText, nullable=False),
    Column("agent", PlainText, nullable=False),
    Column(
        "agent_key", PlainText, nullable=False, comment="the resource's uid; of one of agents.yaml its name"
    ),
    Column("owner", PlainText, nullable=False, comment="a principal's subject"),
    Column("title", PlainText, nullable=False),
    Column("words", PlainText, comment="of the title, for search"),
    Column("session", PlainText, comment="a caller's own name for it"),
    Column("created", Moment, nullable=False),
    Column("last_turn", Moment),
    Column("active", Moment, nullable=False, comment="last_turn, before the first turn's end created"),
    Column("length", Integer, nullable=False, comment="of its messages: the next turn_index"),
    Column("turn", PlainText, comment="the turn under way"),
    Column("process", PlainText, comment="which process works on that"),
    Column("turn_start", Integer, comment="of that turn, the index of what was asked"),
    Column("turn_first", Integer, comment="of that turn, the index behind what was asked"),
    Column("turn_settled", Integer, comment="of that turn, how many rows from there on change no more"),
    Column("turn_replaces", PlainText, comment="the turn in whose place that one is"),
    Column("bytes", BigInteger, nullable=False, server_default="0", comment="of its messages, by triggers"),
    UniqueConstraint("tenant", "id", name="uq_threads_id"),
    UniqueConstraint("tenant", "owner", "agent_key", "session", name="uq_threads_session"),
    # Each holds all that its lists ask of a row before it is one of theirs.
    Index("ix_threads_owner", "tenant", "owner", "active", "id", "agent_key"),
    Index("ix_threads_tenant", "tenant", "active", "id", "agent_key"),
    Index("ix_threads_agent", "tenant", "agent_key", "active", "id"),
)

MESSAGES = Table(
    "messages",
    METADATA,
    Column("tenant", PlainText, nullable=False),
    Column("thread", PlainText, nullable=False),
    Column("turn_index", Integer, nullable=False),
    Column("turn", PlainText, nullable=False, comment="which turn wrote it"),
    Column("role", PlainText, nullable=False),
    Column("content", PlainText, comment="JSON: a text, or a list of a chat completion's parts"),
    Column("words", PlainText, comment="its text's, for search; null in the answer of a turn under way"),
    Column("tool_calls", PlainText, comment="JSON: a list of id, name and arguments"),
    Column("tool_call_id", PlainText),
    Column("is_error", Boolean, nullable=False),
    Column("state", PlainText, comment="JSON: a worker's own"),
    Column("status", PlainText, nullable=False),
    Column("error", PlainText),
    Column("created", Moment, nullable=False),
    PrimaryKeyConstraint("tenant", "thread", "turn_index"),
    ForeignKeyConstraint(
        ["tenant", "thread"], ["threads.tenant", "threads.id"], name="fk_messages_thread", ondelete="CASCADE"
    ),
    CheckConstraint("role IN ('system', 'user', 'assistant', 'tool')", name="role"),
    CheckConstraint("status IN ('pending', 'complete', 'error')", name="status"),
)

USAGE = Table(
    "usage",
    METADATA,
    Column("tenant", PlainText, nullable=False),
    Column("owner", PlainText, nullable=False, comment="a principal's subject"),
    Column("bytes", BigInteger, nullable=False, comment="of its threads, by triggers"),
    PrimaryKeyConstraint("tenant", "owner"),
    comment="What each owner keeps",
)

NOT_IN_TABLES = frozenset(
    {"thread_words", "ix_threads_words", "ix_messages_words", "ix_threads_turn", "ix_messages_pending"}
)
"""Indexes that the migrations alone know: of words, for search, each of one database, of which `thread_words` has
tables of its own beside it; and those of some rows, for which SQLAlchemy would load the dialects of both."""


def insert_into(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """An INSERT of the database's own, for `on_conflict_do_update` and `on_conflict_do_nothing`."""
    if connection.dialect.name == "sqlite":
        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql  # 2 MiB that a gateway with a file does without

    return postgresql.insert(table)
