"""The tables, as the code uses them; `migrations/` makes them, and a test compares the two.

The tenant comes first in every key: what one tenant has is found, and kept apart, by it.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, override

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    Index,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)

if TYPE_CHECKING:
    from sqlalchemy import Dialect
    from sqlalchemy.types import TypeEngine

HEAD = "0001"
"""The newest migration."""

VERSION_TABLE = "pallas_version"
"""Where the number of the last migration is kept: not by the name of alembic's own table, which others use as well."""

MOMENT_LENGTH = len("2026-03-12T10:00:00.000000Z")


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

TOKENS = Table(
    "tokens",
    METADATA,
    Column("tenant", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("agent", Text),
    Column("agent_uid", Text),
    Column("grants", Text, nullable=False, comment="JSON: a list of texts"),
    Column("digest", Text, nullable=False, comment="SHA-256 of the token, hexadecimal"),
    Column("created", Moment, nullable=False),
    Column("created_by", Text, comment="the id of a principal, or what made it"),
    Column("expires", Moment),
    Column("revoked", Moment),
    Column("last_used", Moment, comment="to the minute"),
    Column("rotated_from", Text, comment="the id of the token that it replaced"),
    PrimaryKeyConstraint("tenant", "id"),
    UniqueConstraint("digest"),
    CheckConstraint("role IN ('human', 'agent')", name="role"),
    Index(None, "tenant", "agent"),
)

REVISIONS = Table(
    "revisions",
    METADATA,
    Column("tenant", Text, nullable=False),
    Column("topic", Text, nullable=False),
    Column("revision", BigInteger, nullable=False),
    PrimaryKeyConstraint("tenant", "topic"),
    comment="Counts changes, so that other processes notice them",
)
