"""What goes wrong with a database, in words: what cannot be had now, and what cannot be used at all.

Knows the errors of SQLAlchemy and of the two drivers; no table.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from sqlalchemy.exc import DataError

if TYPE_CHECKING:
    from sqlalchemy.exc import DBAPIError


class StoreError(Exception):
    """The store could not do what was asked; the message says why, and the way out."""

    type = "unavailable"
    """One word for programs."""
    status = 503
    """Of HTTP."""


class StoreUnavailableError(StoreError):
    """The database cannot be reached, or cannot take anything, now. Over HTTP this is 503.

    Args:
        maybe_written: whether the change may have taken effect all the same: the connection broke while it was
            committed. Otherwise nothing was changed.
        disk_full: whether it is for want of room on its disk.
    """

    def __init__(self, message: str, *, maybe_written: bool = False, disk_full: bool = False) -> None:
        super().__init__(message)
        self.maybe_written = maybe_written
        self.disk_full = disk_full


class StoreUnusableError(StoreError):
    """The store will not be usable however often it is tried: a person has to do something. Exit status 78."""


class StorageExceededError(StoreError):
    """A principal, or all of a tenant together, would keep more than they may; nothing was changed."""

    type = "storage_exceeded"
    status = 507


class MalformedTokenError(StoreError):
    """The row of a token holds what no token has. Over HTTP this is 500, with the id in the log.

    Args:
        token: its id.
    """

    def __init__(self, token: str) -> None:
        super().__init__(f"the record of token {token} is malformed: revoke it, and make another")
        self.token = token


class MalformedMessageError(StoreError):
    """The row of a message holds what no message has. Over HTTP this is 500, with the thread in the log.

    Args:
        thread: the id of its thread.
        turn_index: its place there.
    """

    def __init__(self, thread: str, turn_index: int) -> None:
        super().__init__(
            f"the record of message {turn_index} of thread {thread} is malformed: delete the thread"
        )
        self.thread = thread
        self.turn_index = turn_index


# https://www.sqlite.org/rescode.html, https://www.postgresql.org/docs/current/errcodes-appendix.html
_DISK_FULL = "the disk is full, nothing was changed: make room on it"
_READ_ONLY = (
    "it can only be read, nothing was changed: look at its permissions, and at how its disk is mounted"
)
_UNAVAILABLE_SQLITE = {
    sqlite3.SQLITE_FULL: _DISK_FULL,
    sqlite3.SQLITE_READONLY: _READ_ONLY,
    sqlite3.SQLITE_BUSY: "another process holds it, nothing was changed: try again",
    sqlite3.SQLITE_LOCKED: "another connection holds it, nothing was changed: try again",
    sqlite3.SQLITE_IOERR: "its disk has failed: look at the log of the system",
    sqlite3.SQLITE_CANTOPEN: "its file cannot be opened: look at the permissions of the folder, and for a full disk",
    sqlite3.SQLITE_PERM: "its file may not be opened: look at its permissions",
    sqlite3.SQLITE_NOMEM: "there is no memory left",
}
_NO_ROOM = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)
"""What SQLite says where its disk is full: of the journal it says that it cannot be written, or be made."""
_UNUSABLE_SQLITE = {
    sqlite3.SQLITE_NOTADB: "its file is no SQLite database: move it away, or name another one as `store`",
    sqlite3.SQLITE_CORRUPT: "its file is damaged: restore a backup with `pallasctl gateway restore FILE`",
}
_UNAVAILABLE_POSTGRES = {
    "53100": _DISK_FULL,
    "25006": _READ_ONLY,
    "55P03": "another process holds what is needed, nothing was changed: try again",
    "57014": "it took too long, nothing was changed: try again",
    "40P01": "two changes were in each other's way, nothing was changed: try again",
}


def store_error(error: DBAPIError, *, committing: bool = False) -> StoreError | None:
    """What an error of a driver means for the store; None if it says that our own statement is wrong.

    Args:
        error: as SQLAlchemy raises it.
        committing: whether a change was being committed.
    """
    cause = error.orig
    if isinstance(cause, sqlite3.Error):
        code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
        if code in _UNUSABLE_SQLITE:
            return StoreUnusableError(f"the store cannot be used: {_UNUSABLE_SQLITE[code]} ({cause})")
        if code in _UNAVAILABLE_SQLITE:
            return StoreUnavailableError(
                f"the store is not available: {_UNAVAILABLE_SQLITE[code]} ({cause})",
                disk_full=code in _NO_ROOM,
            )
        return None
    state = getattr(cause, "sqlstate", None)
    if state is None and isinstance(error, DataError):
        return None  # the driver could not send a value: the database was not asked
    if state in _UNAVAILABLE_POSTGRES:
        return StoreUnavailableError(f"the store is not available: {_UNAVAILABLE_POSTGRES[state]}")
    # Class 08: connection, 53: resources, 57: somebody intervened, 58: the system. Without one: it never came so far.
    if error.connection_invalidated or state is None or state[:2] in ("08", "53", "57", "58"):
        maybe = committing and error.connection_invalidated
        effect = (
            "the change may have taken effect: look before it is repeated" if maybe else "nothing was changed"
        )
        return StoreUnavailableError(
            f"the store is not available, {effect}: {_first_line(cause)}", maybe_written=maybe
        )
    return None


def _first_line(cause: BaseException | None) -> str:
    """What PostgreSQL says, without its hints; it names users, hosts and databases, never passwords."""
    text = str(cause).strip()
    return text.splitlines()[0].removeprefix("connection failed: ") if text else "its driver does not say why"
