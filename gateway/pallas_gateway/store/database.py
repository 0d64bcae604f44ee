"""The store: transactions in threads, so that nobody waits inside of one, and what happens when the database fails.

Knows connections and threads; no table. What a transaction does is a function of a connection.
"""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as NoConnectionError

from pallas_common.logs.setup import get_logger
from pallas_gateway.store import schema
from pallas_gateway.store.disk.reserve import Reserve
from pallas_gateway.store.engines import READERS, make_engines, read_url, set_durability
from pallas_gateway.store.errors import StoreError, StoreUnavailableError, StoreUnusableError, store_error
from pallas_gateway.store.tables import HEAD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import Connection

    from pallas_gateway.store.engines import Engines

READ_AGAIN = (0.0, 0.2, 0.8)
"""Seconds before each further try of a read, when the database was gone: it may be back, on a new connection."""

RESERVE = 4 * 1024 * 1024
"""Bytes that are kept free on the disk of a file, for what takes something away."""
RESERVE_SUFFIX = ".reserve"
"""Behind the name of the file, of what keeps them."""

_log = get_logger("pallas.gateway.store")


def open_store(store: str, claim: Callable[[Connection], None] | None = None) -> Store:
    """Open a database, made and brought up to date where that is needed. Blocks: call it in a thread.

    Args:
        store: `sqlite:PATH`, `sqlite:///PATH` or `postgresql://user@host/name`.
        claim: refuses a database that belongs to another deployment.

    Raises:
        StoreUnusableError: it never will be usable without a person: a newer schema, another program's database.
        StoreUnavailableError: not now.
    """
    engines = make_engines(read_url(store))
    try:
        with _database_errors(engines):
            if schema.prepare(engines.writer, claim):
                _log.info(f"the store {_name(engines)} has been brought up to date: its schema is {HEAD}")
    except BaseException:
        engines.dispose()
        raise
    return Store(engines)


def do_in_store[T](store: str, what: Callable[[Connection], T]) -> T:
    """Do one thing in a database as it is, in one transaction, and close it. Blocks.

    Raises:
        StoreUnusableError, StoreUnavailableError: as `open_store`.
    """
    engines = make_engines(read_url(store))
    try:
        with _database_errors(engines), engines.writer.begin() as connection:
            schema.version(connection)
            return what(connection)
    finally:
        engines.dispose()


@contextmanager
def _database_errors(engines: Engines) -> Iterator[None]:
    """What a driver raises is raised as what it means for the store."""
    try:
        yield
    except DBAPIError as error:
        meaning = store_error(error)
        raise (
            meaning or StoreUnusableError(f"the store {_name(engines)} cannot be used: {error.orig}")
        ) from error


def _name(engines: Engines) -> str:
    """The address of a database, for people; never with a password."""
    return engines.url.render_as_string(hide_password=True)


class Store:
    """A database that is open."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines
        self._always_durable = engines.url.query.get("synchronous") == "full"
        self._readers = ThreadPoolExecutor(READERS, "store-read")
        # SQLite takes one change at a time: they wait for each other here, where the order is that of asking.
        self._writers = ThreadPoolExecutor(1, "store-write") if engines.is_sqlite else self._readers
        self.on_failure: Callable[[], object] = lambda: None
        """Called whenever the database does not do what was asked, in a thread."""
        self._read_problem: str | None = None
        self._write_problem: str | None = None
        file = engines.file
        self._file = None if file is None else file.stat()
        self._reserve = (
            None if file is None else Reserve(file.with_name(f"{file.name}{RESERVE_SUFFIX}"), RESERVE)
        )

    @property
    def is_sqlite(self) -> bool:
        """Whether it is a file."""
        return self._engines.is_sqlite

    def __str__(self) -> str:
        """Its address, for people; never with a password."""
        return _name(self._engines)

    @property
    def problem(self) -> str | None:
        """Why the last thing that was asked could not be done, and what to do; None if it could. Never waits."""
        if (path := self._engines.file) is not None and self._file is not None:
            try:
                found = path.stat()
            except OSError as error:
                return (
                    f"the store's file {path} is not there any more ({error.strerror}), and nothing is written: put it"
                    " back, or restore a backup with `pallasctl gateway restore FILE` and `pallasctl gateway restart`"
                )
            if not os.path.samestat(found, self._file):
                return (
                    f"the store {path} is another file than the one in use: run `pallasctl gateway restart`"
                )
        return self._write_problem or self._read_problem

    @property
    def cannot_write(self) -> bool:
        """Whether the last change was not taken."""
        return self._write_problem is not None

    async def read[T](self, what: Callable[[Connection], T]) -> T:
        """What the function finds, in one transaction that changes nothing; tried again when the database was gone.

        Raises:
            StoreUnavailableError: the database cannot be had.
            StoreUnusableError: it is damaged.
        """
        loop = asyncio.get_running_loop()
        for pause in READ_AGAIN:
            try:
                return await loop.run_in_executor(self._readers, self._read, what)
            except StoreUnavailableError:
                if self.is_sqlite:
                    raise
                await asyncio.sleep(pause)
        return await loop.run_in_executor(self._readers, self._read, what)

    async def write[T](
        self, what: Callable[[Connection], T], *, durable: bool = True, frees: bool = False
    ) -> T:
        """What the function answers, once all that it changed is committed; never tried again.

        Whoever stops waiting for it does not stop it.

        Args:
            what: what to do; if it raises, nothing is changed.
            durable: whether it has to survive a power loss. All survives the death of this process, and of PostgreSQL.
            frees: whether it takes something away, as revoking and deleting do, and may use what is kept for that on a
                full disk.

        Raises:
            StoreUnavailableError: it was not acknowledged; `maybe_written` says whether it may have happened.
            StoreUnusableError: the database is damaged.
        """
        loop = asyncio.get_running_loop()
        durable = durable or self._always_durable
        return await loop.run_in_executor(self._writers, self._write_once_or_twice, what, durable, frees)

    async def keep_reserve(self) -> None:
        """Keep room for what frees some, where there is enough; harmless when called again."""
        if self._reserve is not None:
            with suppress(OSError):
                await asyncio.to_thread(self._reserve.keep)

    async def close(self) -> None:
        """Wait for what is under way, and close all connections."""
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._readers.shutdown()
        self._writers.shutdown()
        self._engines.dispose()

    def _read[T](self, what: Callable[[Connection], T]) -> T:
        try:
            with self._engines.reader.connect() as connection, connection.begin():
                result = what(connection)
        except DBAPIError as error:
            meaning = self._meaning(error)
            if isinstance(meaning, StoreError):
                self._read_problem = str(meaning)
            raise meaning from error
        except NoConnectionError as error:
            self.on_failure()
            raise _all_taken() from error
        self._read_problem = None
        return result

    def _write_once_or_twice[T](self, what: Callable[[Connection], T], durable: bool, frees: bool) -> T:
        try:
            return self._write(what, durable)
        except StoreUnavailableError as error:
            if not (frees and error.disk_full and self._reserve is not None and self._reserve.free()):
                raise
            return self._write(what, durable)

    def _write[T](self, what: Callable[[Connection], T], durable: bool) -> T:
        committing = False
        try:
            with self._engines.writer.connect() as connection:
                if self.is_sqlite:
                    set_durability(connection, durable=durable)
                with connection.begin():
                    result = what(connection)
                    committing = True
        except DBAPIError as error:
            meaning = self._meaning(error, committing=committing)
            if isinstance(meaning, StoreError):
                self._write_problem = str(meaning)
            raise meaning from error
        except NoConnectionError as error:
            self.on_failure()
            raise _all_taken() from error
        self._write_problem = None
        return result

    def _meaning(self, error: DBAPIError, *, committing: bool = False) -> StoreError | DBAPIError:
        meaning = store_error(error, committing=committing)
        if meaning is None:
            return error
        self.on_failure()
        return meaning


def _all_taken() -> StoreUnavailableError:
    return StoreUnavailableError(
        "the store is not available, nothing was changed: all connections are taken; try again"
    )
