"""Writes log lines away from the event loop: to the rotating file, to stderr or the journal. Callers never wait.

Knows where lines go; nothing of agents. A full queue or a full disk loses lines; they are counted and logged.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger
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


@dataclass(slots=True)
class _Outage:
    """A time in which lines cannot be written."""

    before: int
    """Lines that had failed when it began."""
    last: float = 0.0
    """When the newest one failed, on the monotonic clock."""


class LogWriter:
    """Hands lines to one thread for the file and one for stderr; `put` never waits, and neither waits for the other.

    Args:
        path: the rotating file.
        stderr: whether lines also go to the original stderr, or to the journal itself if that is where it leads.
    """

    def __init__(self, path: Path, *, stderr: bool) -> None:
        self._path = path
        self._failed = 0
        self._outage: _Outage | None = None
        self._stderr = sys.__stderr__ if stderr else None
        self._journal = journal_behind(2, os.environ) if stderr else None
        self._file = RotatingFile(path, max_bytes=MAX_BYTES, backups=BACKUPS)
        self._writers = [
            BackgroundWriter("log-file", self._write_file, limit=QUEUE_BYTES, finish=self._file.close)
        ]
        if self._stderr is not None:
            self._writers.append(
                BackgroundWriter(
                    "log-stderr", self._write_stderr, limit=QUEUE_BYTES, finish=self._close_journal
                )
            )

    @property
    def lost(self) -> int:
        """Lines that did not reach the file because the queue or the disk was full."""
        return self._failed + self._writers[0].dropped

    def put(self, line: bytes) -> None:
        """Hand over one line without its line feed; count it as lost if the writer is too far behind."""
        for writer in self._writers:
            writer.put(line)

    def reopen(self) -> None:
        """Have the next line go into the file that has the log's name then."""
        self._file.look()

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
                _log.error(f"{self._path} cannot be written, log lines are lost: {error.strerror or error}")
            self._outage.last = time.monotonic()
            return
        # What is logged here comes back as a line: on a disk with room for short lines only, that would never end.
        if self._outage is not None and time.monotonic() - self._outage.last >= OUTAGE_OVER:
            lost, self._outage = self._failed - self._outage.before, None
            _log.warning(f"{self._path} can be written again; {lost} lines are missing")

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
    """The line as UTF-8; what is not is replaced."""
    try:
        line.decode()
    except UnicodeDecodeError:
        return line.decode("utf-8", "replace").encode()
    return line
