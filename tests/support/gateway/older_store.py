"""A store as an older Pallas has left it: what newer migrations have made is taken out again.

Knows the names of what each has made; nothing of what is in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import text

from pallas_gateway.store.tables import VERSION_TABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection

OF_0_8 = "0002"
"""The schema of 0.8."""


def go_back(connection: Connection, *, schema: str) -> None:
    """Take out what migrations after that one have made."""
    if int(schema) < 4:
        for statement in _usage(connection):
            connection.execute(text(statement))
    if int(schema) < 3:
        connection.execute(text("DROP TABLE instance"))
    connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '{schema}'"))


def _usage(connection: Connection) -> Iterator[str]:
    if connection.dialect.name == "sqlite":
        for table in ("messages", "threads"):
            for event in ("insert", "update", "delete"):
                yield f"DROP TRIGGER {table}_bytes_{event}"
    else:
        yield "DROP FUNCTION pallas_count_message CASCADE"
        yield "DROP FUNCTION pallas_count_thread CASCADE"
    yield "DROP TABLE usage"
    yield "ALTER TABLE threads DROP COLUMN bytes"
