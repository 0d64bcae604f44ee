"""Writes log lines away from the event loop: to the rotating file, to stderr, without ever holding anybody up.

Knows files and one thread; nothing of agents. A full queue or a full disk loses lines, and they are counted.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import logging.handlers
import os
import queue
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_BYTES = 10 * 1024 * 1024
BACKUPS = 5
QUEUE_BYTES = 32 * 1024 * 1024
"""Bytes of lines that may wait for a slow disk."""
LINE_OVERHEAD = 100
CLOSE_TIMEOUT = 4.0
"""Seconds that the last lines may take."""


def log_file_path(environ: Mapping[str, str]) -> Path:
    """`PALLAS_LOG_FILE`, or `~/.local/state/pallas/pallas.log`."""
    given = environ.get("PALLAS_LOG_FILE")
    return Path(given).expanduser() if given else Path("~/.local/state/pallas/pallas.log").expanduser()


def claim(path: Path, deployment: str) -> tuple[Path, int]:
    """The file that this supervisor alone may write, and the descriptor that holds the claim.

    Where another supervisor writes `path` already, the deployment gets a file of its own beside it: two processes
    that rotate one file lose lines.

    Raises:
        OSError: the folder cannot be made or written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for candidate in (path, path.with_name(f"{path.stem}-{deployment}{path.suffix}")):
        lock = os.open(f"{candidate}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        return candidate, lock
    raise BlockingIOError(f"other supervisors write {path} and {candidate}; set PALLAS_LOG_FILE")


class _RotatingFile(logging.handlers.RotatingFileHandler):
    """The standard library's rotation, fed with finished lines; errors are counted, not printed."""

    failed = 0

    def format(self, record: logging.LogRecord) -> str:
        return str(record.msg)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the standard library's name
        self.failed += 1


class LogWriter:
    """One thread that writes lines; `put` never waits.

    Args:
        path: the rotating file, or None for no file.
        stderr: whether lines also go to the original stderr, for journald.
    """

    def __init__(self, path: Path | None, *, stderr: bool) -> None:
        self._file = None
        if path is not None:
            self._file = _RotatingFile(
                path, maxBytes=MAX_BYTES, backupCount=BACKUPS, encoding="utf-8", delay=True
            )
        self._stderr = sys.__stderr__ if stderr else None
        self._queue: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._waiting = 0
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="log-writer", daemon=True)
        self._thread.start()
        self._lost = 0

    @property
    def lost(self) -> int:
        """Lines that reached no file because the queue or the disk was full."""
        return self._lost + (self._file.failed if self._file is not None else 0)

    def put(self, line: bytes) -> None:
        """Hand over one line without its line feed; count it as lost if the writer is too far behind."""
        if self._waiting > QUEUE_BYTES:
            self._lost += 1
            return
        text = line.decode("utf-8", "replace")
        with self._lock:
            self._waiting += len(text) + LINE_OVERHEAD
        self._queue.put(text)

    def close(self) -> None:
        """Write what is queued, at most for some seconds, and end the thread."""
        self._queue.put(None)
        self._thread.join(timeout=CLOSE_TIMEOUT)

    def _run(self) -> None:
        try:
            self._write()
        finally:
            if self._file is not None:
                with contextlib.suppress(OSError):  # a full disk
                    self._file.close()

    def _write(self) -> None:
        while (line := self._queue.get()) is not None:
            with self._lock:
                self._waiting -= len(line) + LINE_OVERHEAD
            if self._file is not None:
                self._file.handle(logging.makeLogRecord({"msg": line}))
            if self._stderr is not None:
                try:
                    self._stderr.write(line + "\n")
                    self._stderr.flush()
                except (OSError, ValueError):
                    self._stderr = None  # journald has gone; the file goes on
