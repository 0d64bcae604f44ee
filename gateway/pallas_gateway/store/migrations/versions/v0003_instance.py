"""The one deployment whose store it is."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_MOMENT = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")


def upgrade() -> None:
    """Make the table; who opens the store first writes its row."""
    op.create_table(
        "instance",
        sa.Column("number", sa.Integer, autoincrement=False),
        sa.Column("id", sa.Text, nullable=False, comment="random; the state directory has it, too"),
        sa.Column("deployment", sa.Text, nullable=False, comment="its name, for people"),
        sa.Column("host", sa.Text, nullable=False, comment="of its machine, for people"),
        sa.Column("created", _MOMENT, nullable=False),
        sa.Column("seen", _MOMENT, nullable=False, comment="when its gateway was there last; to the minute"),
        sa.PrimaryKeyConstraint("number", name="pk_instance"),
        sa.CheckConstraint("number = 1", name="ck_instance_number"),
        comment="The deployment whose store it is: one row",
    )
