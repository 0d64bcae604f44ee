"""The connections: which database a text means, and how each of its connections is set up.

Knows SQLite's and PostgreSQL's settings; no table. Where a database is asked, the caller is in a thread.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import URL, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError

from pallas_gateway.store.errors import StoreUnavailableError, StoreUnusableError

if TYPE_CHECKING:
    import sqlite3

    from sqlalchemy import Connection, Engine
    from sqlalchemy.engine.interfaces import DBAPIConnection

READERS = 4
"""Threads and connections that read at a time; in PostgreSQL those that write are among them."""

_BUSY = 10
"""Seconds that a connection waits for another process that writes to the same file."""
_JOURNAL = 64 * 1024 * 1024
"""Bytes to which SQLite's journal is cut after a checkpoint."""
_CONNECT = 5
"""Seconds in which PostgreSQL has to take a connection."""
_SILENCE = 10_000
"""Milliseconds after which a connection to a host that says nothing counts as broken."""
_STATEMENT = 30_000
"""Milliseconds that one statement may take."""
_RECYCLE = 1800
"""Seconds after which a connection to PostgreSQL is replaced: proxies drop old ones."""


@dataclass(frozen=True, slots=True)
class Engines:
    """Of one database: for reads and for writes, which are the same in PostgreSQL."""

    url: URL
    reader: Engine
    writer: Engine

    @property
    def is_sqlite(self) -> bool:
        """Whether it is a file."""
        return self.reader is not self.writer

    @property
    def file(self) -> Path | None:
        """The file of SQLite."""
        return Path(self.url.database or "") if self.is_sqlite else None

    def dispose(self) -> None:
        """Close all connections that nobody uses now."""
        self.reader.dispose()
        self.writer.dispose()


def read_url(store: str) -> URL:
    """The database that a text means: `sqlite:PATH`, `sqlite:///PATH`, `postgresql://…`.

    `?synchronous=full` behind the path of a file syncs it after every change, whatever the change.

    Raises:
        StoreUnusableError: it means none. The message does not have the text, which may hold a password.
    """
    kind, _, rest = store.partition(":")
    if kind == "sqlite" and not rest.startswith("//"):
        store = f"sqlite:///{rest}"
    try:
        url = make_url(store)
    except (ArgumentError, ValueError):
        raise StoreUnusableError(
            "`store` of `gateway:` is no address of a database: write `sqlite:PATH` or `postgresql://user@host/name`"
        ) from None
    match url.drivername:
        case "sqlite" | "sqlite+pysqlite":
            if url.host or not url.database or url.database == ":memory:" or url.database.startswith("file:"):
                raise StoreUnusableError("`store` of `gateway:` names no file: write `sqlite:PATH`")
            if url.query.keys() - {"synchronous"} or url.query.get("synchronous", "full") not in (
                "full",
                "normal",
            ):
                raise StoreUnusableError(
                    "`store` of `gateway:`: only `?synchronous=full` or `?synchronous=normal` may follow the path of "
                    "a file"
                )
            return url.set(drivername="sqlite+pysqlite")
        case "postgresql" | "postgres" | "postgresql+psycopg":
            return url.set(drivername="postgresql+psycopg")
    raise StoreUnusableError(
        f"`store` of `gateway:`: no such kind of database as {url.drivername!r}: `sqlite:PATH` or `postgresql://…`"
    )


def make_engines(url: URL) -> Engines:
    """The engines of a database; nothing is connected.

    Raises:
        StoreUnusableError, StoreUnavailableError: the file cannot be made or used.
    """
    # Parameters of statements, such as digests, are in no message.
    if url.drivername == "postgresql+psycopg":
        import psycopg

        engine = create_engine(
            url,
            module=psycopg,
            hide_parameters=True,
            pool_size=READERS,
            max_overflow=0,
            pool_timeout=_CONNECT,
            pool_pre_ping=True,
            pool_recycle=_RECYCLE,
            connect_args=_postgres_arguments(url),
        )
        event.listen(engine, "connect", _set_up_postgres)
        return Engines(url, engine, engine)
    path = Path(url.database or "")
    _make_file(path)
    plain = url.set(query={})
    reader = create_engine(plain, hide_parameters=True, pool_size=READERS, max_overflow=0)
    writer = create_engine(plain, hide_parameters=True, pool_size=1, max_overflow=0)
    event.listen(reader, "connect", _set_up_sqlite_reader)
    event.listen(writer, "connect", _set_up_sqlite_writer)
    event.listen(reader, "begin", _begin)
    event.listen(writer, "begin", _begin_immediate)
    return Engines(url, reader, writer)


def set_durability(connection: Connection, *, durable: bool) -> None:
    """Say of a connection to SQLite, before its transaction begins, whether it is on the disk when it is done.

    Else it survives the death of the process at any moment; a power loss may undo the last ones.
    """
    driver: Any = connection.connection.driver_connection
    driver.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")


def _postgres_arguments(url: URL) -> dict[str, Any]:
    given = {
        "connect_timeout": _CONNECT,
        "keepalives_idle": 30,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": _SILENCE,
        "application_name": "pallas-gateway",
    }
    return {name: value for name, value in given.items() if name not in url.query}


def _set_up_postgres(connection: DBAPIConnection, _: object) -> None:
    cursor = connection.cursor()
    cursor.execute(f"SET statement_timeout = {_STATEMENT}")
    cursor.execute("SET idle_in_transaction_session_timeout = 60000")
    cursor.execute("SET TIME ZONE 'UTC'")
    cursor.close()
    connection.commit()


def _set_up_sqlite(connection: sqlite3.Connection) -> None:
    # Transactions begin where SQLAlchemy begins them: the driver itself would begin some of them late, and end them
    # before changes of tables.
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout = {_BUSY * 1000}")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA trusted_schema = OFF")


def _set_up_sqlite_reader(connection: sqlite3.Connection, _: object) -> None:
    _set_up_sqlite(connection)
    connection.execute("PRAGMA query_only = ON")


def _set_up_sqlite_writer(connection: sqlite3.Connection, _: object) -> None:
    _set_up_sqlite(connection)
    if connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA journal_size_limit = {_JOURNAL}")


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN")


def _begin_immediate(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _make_file(path: Path) -> None:
    """Make the file, for its owner alone; the journals beside it get the same permissions."""
    try:
        with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise StoreUnusableError(
                    f"the store {path} is no file: name another one as `store` of `gateway:`"
                )
            if found.st_uid == os.geteuid() and found.st_mode & 0o077:
                os.fchmod(file.fileno(), 0o600)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError) as error:
        raise StoreUnusableError(
            f"the store {path} cannot be opened: {error.strerror}; make its folder, or name another one as `store` of "
            "`gateway:`"
        ) from error
    except OSError as error:
        raise StoreUnavailableError(f"the store {path} cannot be opened: {error.strerror}") from error
