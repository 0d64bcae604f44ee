"""Threads, messages and an index of their words; sessions of browsers; whose the things of a rotated token are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa
from alembic import op

if TYPE_CHECKING:
    from collections.abc import Mapping

revision = "0002"
down_revision = "0001"

_MOMENT = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")
_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")

# It keeps no text and no positions: a row's number is its thread's and its turn_index (16777215: the title), so that
# what is found says in which threads without a look at any other table. What is a word is said in Python. Triggers
# cannot fill it: a connection that does not trust the schema of its file lets none reach a virtual table.
_SQLITE_WORDS = (
    """CREATE VIRTUAL TABLE thread_words USING fts5(
        words, content = '', detail = none, columnsize = 0, prefix = '3', tokenize = "ascii tokenchars '_'")""",
)
_POSTGRES_WORDS = (
    "CREATE INDEX ix_messages_words ON messages USING gin (array_to_tsvector(string_to_array(words, ' ')))",
    "CREATE INDEX ix_threads_words ON threads USING gin (array_to_tsvector(string_to_array(words, ' ')))",
)


def upgrade() -> None:
    """Make the tables, and say of each token whose things are its own."""
    # Nullable: a gateway of before, which goes on until it is replaced, makes tokens without it.
    op.add_column(
        "tokens",
        sa.Column(
            "subject", sa.Text, comment="the id of the first token of its chain of rotations; null: its own"
        ),
    )
    _fill_subjects()
    op.create_table(
        "sessions",
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column(
            "digest", sa.Text, nullable=False, comment="SHA-256 of the cookie's random text, hexadecimal"
        ),
        sa.Column(
            "credential", sa.Text, comment="digest of the token that it was opened with; null: by an issuer"
        ),
        sa.Column("principal", sa.Text, comment="JSON: who the issuer said that it is"),
        sa.Column("created", _MOMENT, nullable=False),
        sa.Column("expires", _MOMENT, nullable=False),
        sa.Column("last_used", _MOMENT),
        sa.PrimaryKeyConstraint("tenant", "digest", name="pk_sessions"),
        comment="Browsers that are logged in",
    )
    op.create_index("ix_sessions_expires", "sessions", ["expires"])
    _make_threads()
    _make_messages()
    for statement in _SQLITE_WORDS if op.get_bind().dialect.name == "sqlite" else _POSTGRES_WORDS:
        op.execute(statement)


def _make_threads() -> None:
    op.create_table(
        "threads",
        sa.Column("number", _NUMBER, autoincrement=True),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("agent", sa.Text, nullable=False),
        sa.Column(
            "agent_key", sa.Text, nullable=False, comment="the resource's uid; of one of agents.yaml its name"
        ),
        sa.Column("owner", sa.Text, nullable=False, comment="a principal's subject"),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("words", sa.Text, comment="of the title, for search"),
        sa.Column("session", sa.Text, comment="a caller's own name for it"),
        sa.Column("created", _MOMENT, nullable=False),
        sa.Column("last_turn", _MOMENT),
        sa.Column(
            "active", _MOMENT, nullable=False, comment="last_turn, before the first turn's end created"
        ),
        sa.Column("length", sa.Integer, nullable=False, comment="of its messages: the next turn_index"),
        sa.Column("turn", sa.Text, comment="the turn under way"),
        sa.Column("process", sa.Text, comment="which process works on that"),
        sa.Column("turn_start", sa.Integer, comment="of that turn, the index of what was asked"),
        sa.Column("turn_first", sa.Integer, comment="of that turn, the index behind what was asked"),
        sa.Column(
            "turn_settled", sa.Integer, comment="of that turn, how many rows from there on change no more"
        ),
        sa.Column("turn_replaces", sa.Text, comment="the turn in whose place that one is"),
        sa.PrimaryKeyConstraint("number", name="pk_threads"),
        sa.UniqueConstraint("tenant", "id", name="uq_threads_id"),
        sa.UniqueConstraint("tenant", "owner", "agent_key", "session", name="uq_threads_session"),
    )
    op.create_index("ix_threads_owner", "threads", ["tenant", "owner", "active", "id", "agent_key"])
    op.create_index("ix_threads_tenant", "threads", ["tenant", "active", "id", "agent_key"])
    op.create_index("ix_threads_agent", "threads", ["tenant", "agent_key", "active", "id"])
    under_way = sa.text("turn IS NOT NULL")
    op.create_index(
        "ix_threads_turn", "threads", ["tenant", "id"], sqlite_where=under_way, postgresql_where=under_way
    )


def _make_messages() -> None:
    op.create_table(
        "messages",
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("thread", sa.Text, nullable=False),
        sa.Column("turn_index", sa.Integer, nullable=False),
        sa.Column("turn", sa.Text, nullable=False, comment="which turn wrote it"),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("content", sa.Text, comment="JSON: a text, or a list of a chat completion's parts"),
        sa.Column("words", sa.Text, comment="its text's, for search; null in the answer of a turn under way"),
        sa.Column("tool_calls", sa.Text, comment="JSON: a list of id, name and arguments"),
        sa.Column("tool_call_id", sa.Text),
        sa.Column("is_error", sa.Boolean, nullable=False),
        sa.Column("state", sa.Text, comment="JSON: a worker's own"),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("error", sa.Text),
        sa.Column("created", _MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "thread", "turn_index", name="pk_messages"),
        sa.ForeignKeyConstraint(
            ["tenant", "thread"],
            ["threads.tenant", "threads.id"],
            name="fk_messages_thread",
            ondelete="CASCADE",
        ),
        sa.CheckConstraint("role IN ('system', 'user', 'assistant', 'tool')", name="ck_messages_role"),
        sa.CheckConstraint("status IN ('pending', 'complete', 'error')", name="ck_messages_status"),
    )
    pending = sa.text("status = 'pending'")
    op.create_index(
        "ix_messages_pending",
        "messages",
        ["tenant", "thread"],
        sqlite_where=pending,
        postgresql_where=pending,
    )


def _fill_subjects() -> None:
    tokens = sa.table("tokens", *map(sa.column, ("tenant", "id", "rotated_from", "subject")))
    connection = op.get_bind()
    rows = connection.execute(sa.select(tokens.c.tenant, tokens.c.id, tokens.c.rotated_from)).all()
    before = {(row.tenant, row.id): row.rotated_from for row in rows}
    update = (
        sa.update(tokens)
        .where(tokens.c.tenant == sa.bindparam("of"), tokens.c.id == sa.bindparam("token"))
        .values(subject=sa.bindparam("first"))
    )
    if rows:
        connection.execute(
            update, [{"of": of, "token": id_, "first": _first(before, of, id_)} for of, id_ in before]
        )


def _first(before: Mapping[tuple[str, str], str | None], tenant: str, token: str) -> str:
    """The id at the beginning of a chain; the row of that may have been forgotten."""
    seen = {token}
    while (previous := before.get((tenant, token))) is not None and previous not in seen:
        seen.add(previous)
        token = previous
    return token
