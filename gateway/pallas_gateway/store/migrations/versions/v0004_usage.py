"""How many bytes each owner's threads take, counted by triggers: whichever process writes, and however it ends."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_COUNTED = ("content", "words", "tool_calls", "state", "error")
"""Columns of a message that may be long."""
_MESSAGE = 128
_THREAD = 512
"""Bytes of a row besides them, about: many short ones take room as well."""


def upgrade() -> None:
    """Make the counters, count what there is, and go on counting."""
    op.add_column(
        "threads",
        sa.Column(
            "bytes", sa.BigInteger, nullable=False, server_default="0", comment="of its messages, by triggers"
        ),
    )
    op.create_table(
        "usage",
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False, comment="a principal's subject"),
        sa.Column("bytes", sa.BigInteger, nullable=False, comment="of its threads, by triggers"),
        sa.PrimaryKeyConstraint("tenant", "owner", name="pk_usage"),
        comment="What each owner keeps",
    )
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    op.execute(
        f"UPDATE threads SET bytes = COALESCE((SELECT sum({_size('messages', is_sqlite=is_sqlite)}) FROM messages"  # noqa: S608
        " WHERE messages.tenant = threads.tenant AND messages.thread = threads.id), 0)"
    )
    op.execute(
        f"INSERT INTO usage (tenant, owner, bytes) SELECT tenant, owner, sum(bytes + {_THREAD}) FROM threads"  # noqa: S608
        " GROUP BY tenant, owner"
    )
    for statement in _sqlite() if is_sqlite else _postgres():
        op.execute(statement)


def _size(row: str, *, is_sqlite: bool) -> str:
    of = "length(CAST({} AS BLOB))" if is_sqlite else "octet_length({})"
    return " + ".join([f"COALESCE({of.format(f'{row}.{name}')}, 0)" for name in _COUNTED] + [str(_MESSAGE)])


def _sqlite() -> list[str]:
    old, new = _size("OLD", is_sqlite=True), _size("NEW", is_sqlite=True)

    def of_thread(event: str, change: str, row: str) -> str:
        return (
            f"CREATE TRIGGER messages_bytes_{event.split()[0].lower()} AFTER {event} ON messages BEGIN "  # noqa: S608
            f"UPDATE threads SET bytes = bytes + {change} WHERE tenant = {row}.tenant AND id = {row}.thread; END"
        )

    def of_owner(event: str, change: str, row: str) -> str:
        return (
            f"CREATE TRIGGER threads_bytes_{event.split()[0].lower()} AFTER {event} ON threads BEGIN "  # noqa: S608
            f"INSERT INTO usage (tenant, owner, bytes) VALUES ({row}.tenant, {row}.owner, {change}) "
            "ON CONFLICT (tenant, owner) DO UPDATE SET bytes = usage.bytes + excluded.bytes; END"
        )

    return [
        of_thread("INSERT", f"({new})", "NEW"),
        of_thread(f"UPDATE OF {', '.join(_COUNTED)}", f"({new}) - ({old})", "NEW"),
        of_thread("DELETE", f"-({old})", "OLD"),
        of_owner("INSERT", f"NEW.bytes + {_THREAD}", "NEW"),
        of_owner("UPDATE OF bytes", "NEW.bytes - OLD.bytes", "NEW"),
        of_owner("DELETE", f"-OLD.bytes - {_THREAD}", "OLD"),
    ]


def _postgres() -> list[str]:
    old, new = _size("OLD", is_sqlite=False), _size("NEW", is_sqlite=False)
    return [
        f"""CREATE FUNCTION pallas_count_message() RETURNS trigger LANGUAGE plpgsql AS $$
            DECLARE change bigint := 0;
            BEGIN
                IF TG_OP <> 'INSERT' THEN change := change - ({old}); END IF;
                IF TG_OP = 'DELETE' THEN
                    UPDATE threads SET bytes = bytes + change WHERE tenant = OLD.tenant AND id = OLD.thread;
                ELSE
                    change := change + ({new});
                    IF change <> 0 THEN
                        UPDATE threads SET bytes = bytes + change WHERE tenant = NEW.tenant AND id = NEW.thread;
                    END IF;
                END IF;
                RETURN NULL;
            END $$""",  # noqa: S608
        f"""CREATE FUNCTION pallas_count_thread() RETURNS trigger LANGUAGE plpgsql AS $$
            DECLARE counted threads; change bigint;
            BEGIN
                CASE TG_OP
                    WHEN 'INSERT' THEN counted := NEW; change := NEW.bytes + {_THREAD};
                    WHEN 'UPDATE' THEN counted := NEW; change := NEW.bytes - OLD.bytes;
                    ELSE counted := OLD; change := -OLD.bytes - {_THREAD};
                END CASE;
                IF change <> 0 THEN
                    INSERT INTO usage AS u (tenant, owner, bytes) VALUES (counted.tenant, counted.owner, change)
                    ON CONFLICT (tenant, owner) DO UPDATE SET bytes = u.bytes + excluded.bytes;
                END IF;
                RETURN NULL;
            END $$""",  # noqa: S608
        f"""CREATE TRIGGER messages_bytes AFTER INSERT OR DELETE OR UPDATE OF {", ".join(_COUNTED)} ON messages
            FOR EACH ROW EXECUTE FUNCTION pallas_count_message()""",
        # At the commit: who writes to several threads would else wait for an owner's row with a thread's in hand.
        """CREATE CONSTRAINT TRIGGER threads_bytes AFTER INSERT OR DELETE OR UPDATE OF bytes ON threads
            DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION pallas_count_thread()""",
    ]
