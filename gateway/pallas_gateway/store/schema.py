"""The schema of a database: read, refused where it is not ours or too new, brought up to date.

Knows alembic, which is loaded only if there is something to do. Two processes at a time take turns: SQLite's own lock
for writers, and an advisory lock in PostgreSQL, are held from the look to the last change.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import inspect, text

from pallas_gateway.store.errors import StoreUnusableError
from pallas_gateway.store.tables import HEAD, METADATA, VERSION_TABLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from alembic.config import Config
    from sqlalchemy import Connection, Engine

APPLICATION_ID = 0x506C6C73
"""Of a SQLite file of ours, at a fixed place in it: `Plls`."""

OWNED_SINCE = 3
"""The migration that makes the row of the deployment that the database belongs to."""

_LOCK = 0x506C_6C73_0001
"""Of PostgreSQL's advisory lock."""
_LOCK_TIMEOUT = "60s"


def prepare(engine: Engine, claim: Callable[[Connection], None] | None = None) -> bool:
    """Make the database's schema the newest, all of it or nothing; whether something was changed.

    Args:
        engine: whose transactions lock SQLite from their begin.
        claim: refuses a database that belongs to another deployment, before it is changed if it says so already.

    Raises:
        StoreUnusableError: it is another program's, or of a newer Pallas.
        sqlalchemy.exc.DBAPIError: the database failed.
    """
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'"))
            connection.execute(text("SET LOCAL statement_timeout = 0"))
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        found = version(connection)
        has_owner = found is not None and int(found) >= OWNED_SINCE
        if claim is not None and has_owner:
            claim(connection)
        if found == HEAD:
            return False
        _upgrade(connection)
        if connection.dialect.name == "sqlite":
            connection.execute(text(f"PRAGMA application_id = {APPLICATION_ID}"))
        if claim is not None and not has_owner:
            claim(connection)
        return True


def configuration(connection: Connection) -> Config:
    """What alembic is to work with: our migrations, on this connection."""
    from alembic.config import Config

    config = Config()
    folder = Path(__file__).parent / "migrations"
    # A percent sign would begin a reference.
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def version(connection: Connection) -> str | None:
    """The number of the newest migration that the database has seen; None for an empty one.

    Raises:
        StoreUnusableError: it is another program's, or of a newer Pallas.
    """
    tables = set(inspect(connection).get_table_names())
    if VERSION_TABLE not in tables:
        # In PostgreSQL others may have tables beside ours; a file is one program's.
        theirs = tables if connection.dialect.name == "sqlite" else tables & METADATA.tables.keys()
        if theirs:
            raise StoreUnusableError(
                f"the store is the database of another program: it has the table {min(theirs)!r} and none called "
                f"{VERSION_TABLE!r}; name a database of its own as `store` of `gateway:`"
            )
        return None
    found = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalars().all()  # noqa: S608
    if len(found) != 1 or not str(found[0]).isdecimal() or int(found[0]) < 1:
        raise StoreUnusableError(
            f"the store is not of Pallas, or damaged: its table {VERSION_TABLE!r} holds no single number; name a "
            "database of its own as `store` of `gateway:`, or restore a backup"
        )
    if int(found[0]) > int(HEAD):
        raise StoreUnusableError(
            f"the store has been used by a newer Pallas: its schema is {found[0]}, this one knows {HEAD}; start the "
            "newer one, or restore a backup from before with `pallasctl gateway restore FILE`"
        )
    return str(found[0])


def _upgrade(connection: Connection) -> None:
    # What it says at INFO is of its own insides, some of it while it is loaded.
    logging.getLogger("alembic").setLevel(logging.WARNING)
    from alembic.command import upgrade

    upgrade(configuration(connection), "head")
