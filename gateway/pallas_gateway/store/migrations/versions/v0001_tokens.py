"""Tokens, and the counters by which other processes notice changes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_MOMENT = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")


def upgrade() -> None:
    """Make both tables."""
    op.create_table(
        "tokens",
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("agent", sa.Text),
        sa.Column("agent_uid", sa.Text),
        sa.Column("grants", sa.Text, nullable=False, comment="JSON: a list of texts"),
        sa.Column("digest", sa.Text, nullable=False, comment="SHA-256 of the token, hexadecimal"),
        sa.Column("created", _MOMENT, nullable=False),
        sa.Column("created_by", sa.Text, comment="the id of a principal, or what made it"),
        sa.Column("expires", _MOMENT),
        sa.Column("revoked", _MOMENT),
        sa.Column("last_used", _MOMENT, comment="to the minute"),
        sa.Column("rotated_from", sa.Text, comment="the id of the token that it replaced"),
        sa.PrimaryKeyConstraint("tenant", "id", name="pk_tokens"),
        sa.UniqueConstraint("digest", name="uq_tokens_digest"),
        sa.CheckConstraint("role IN ('human', 'agent')", name="ck_tokens_role"),
    )
    op.create_index("ix_tokens_tenant_agent", "tokens", ["tenant", "agent"])
    op.create_table(
        "revisions",
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("topic", sa.Text, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "topic", name="pk_revisions"),
        comment="Counts changes, so that other processes notice them",
    )
