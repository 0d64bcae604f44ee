"""Writes log lines away from the event loop: to the rotating file, to stderr, without ever holding anybody up.

Knows where lines go; nothing of agents. A full queue or a full disk loses lines, and they are counted and told.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger
from pallas_registry.environment.variables import LOG_FILE_VARIABLE
from pallas_supervisor.logs.background_writer import BackgroundWriter
from pallas_supervisor.logs.journal import journal_behind
from pallas_supervisor.logs.rotating_file import RotatingFile

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES = 10 * 1024 * 1024
BACKUPS = 5
QUEUE_BYTES = 32 * 1024 * 1024
"""Bytes of lines that may wait for a slow disk."""
CLOSE_TIMEOUT = 4.0
"""Seconds that the last lines may take."""

OUTAGE_OVER = 1.0
"""Seconds without a failure after which the file counts as writable again."""

_log = get_logger("pallas.supervisor.logfile")


def claim(path: Path, deployment: str) -> tuple[Path, int]:
    """The file that this supervisor alone may write, and the descriptor that holds the claim.

    Where another supervisor writes `path` already, the deployment gets a file of its own beside it: two processes
    that rotate one file lose lines.

    Raises:
        OSError: it cannot be written; the message says what to do.
    """
    candidates = (path, path.with_name(f"{path.stem}-{deployment}{path.suffix}"))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for candidate in candidates:
            if (lock := _lock(candidate)) is not None:
                return candidate, lock
    except OSError as error:
        where = error.filename or path
        reason = f"{where}: {error.strerror}" if str(where) != str(path) else error.strerror
        remedy = f"set {LOG_FILE_VARIABLE} to a file that this user may write"
        raise OSError(f"the log file {path} cannot be written ({reason}); {remedy}") from error
    raise BlockingIOError(
        f"other supervisors write {' and '.join(map(str, candidates))}; set {LOG_FILE_VARIABLE}"
    )


def _lock(path: Path) -> int | None:
    """The descriptor that holds the claim, or None where another supervisor has it; the file can be written."""
    if path.exists() and not (
        path.is_file() or path.is_char_device()
    ):  # /dev/null is a wish; a pipe would wait
        raise OSError(errno.EINVAL, "is no regular file", str(path))
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600))
    except BlockingIOError:
        os.close(lock)
        return None
    except OSError:
        os.close(lock)
        raise
    return lock


@dataclass(slots=True)
class _Outage:
    """A time in which lines cannot be written."""

    before: int
    """Lines that had failed when it began."""
    last: float = 0.0
    """When the newest one failed, on the monotonic clock."""


class LogWriter:
    """Hands lines to one thread for the file and one for stderr; `put` never waits, and neither do they on each other.

    Args:
        path: the rotating file, or None for no file.
        stderr: whether lines also go to the original stderr, or to the journal itself if that is where it leads.
    """

    def __init__(self, path: Path | None, *, stderr: bool) -> None:
        self._path = path
        self._failed = 0
        self._outage: _Outage | None = None
        self._stderr = sys.__stderr__ if stderr else None
        self._journal = journal_behind(2, os.environ) if stderr else None
        self._file_writer: BackgroundWriter | None = None
        self._writers: list[BackgroundWriter] = []
        if path is not None:
            self._file = RotatingFile(path, max_bytes=MAX_BYTES, backups=BACKUPS)
            self._file_writer = BackgroundWriter(
                "log-file", self._write_file, limit=QUEUE_BYTES, finish=self._file.close
            )
            self._writers.append(self._file_writer)
        if self._stderr is not None:
            self._writers.append(
                BackgroundWriter(
                    "log-stderr", self._write_stderr, limit=QUEUE_BYTES, finish=self._close_journal
                )
            )

    @property
    def lost(self) -> int:
        """Lines that did not reach the file (or stderr, without one) because the queue or the disk was full."""
        return self._failed + sum(writer.dropped for writer in self._writers[:1])

    def put(self, line: bytes) -> None:
        """Hand over one line without its line feed; count it as lost if the writer is too far behind."""
        for writer in self._writers:
            writer.put(line)

    def close(self) -> None:
        """Write what is queued, at most for some seconds, and end the threads."""
        for writer in self._writers:
            writer.close()
        deadline = time.monotonic() + CLOSE_TIMEOUT
        for writer in self._writers:
            writer.join(max(deadline - time.monotonic(), 0.0))

    def _write_file(self, line: bytes) -> None:
        try:
            self._file.write(_valid(line))
        except OSError as error:
            self._failed += 1
            if self._outage is None:
                self._outage = _Outage(before=self._failed - 1)
                _log.error(
                    "%s cannot be written, log lines are lost: %s", self._path, error.strerror or error
                )
            self._outage.last = time.monotonic()
            return
        # What is told here comes back as a line: on a disk with room for short lines only, that would never end.
        if self._outage is not None and time.monotonic() - self._outage.last >= OUTAGE_OVER:
            lost, self._outage = self._failed - self._outage.before, None
            _log.warning("%s can be written again; %d lines are missing", self._path, lost)

    def _write_stderr(self, line: bytes) -> None:
        if self._stderr is None or (self._journal is not None and self._journal.write(line)):
            return
        try:
            self._stderr.write(line.decode("utf-8", "replace") + "\n")
            self._stderr.flush()
        except (OSError, ValueError):
            self._stderr = None  # journald has gone; the file goes on

    def _close_journal(self) -> None:
        if self._journal is not None:
            self._journal.close()


def _valid(line: bytes) -> bytes:
    """The line as UTF-8, whatever somebody put into it."""
    try:
        line.decode()
    except UnicodeDecodeError:
        return line.decode("utf-8", "replace").encode()
    return line
