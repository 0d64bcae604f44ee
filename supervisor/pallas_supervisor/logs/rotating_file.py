"""A log file of whole lines that is renamed when it gets long: what cannot be written leaves no torn line behind.

Knows one path, its numbered predecessors and who may write it; nothing of what is logged. The standard library's
handler keeps what a full disk refused in a buffer, and never writes again if that happens while it rotates.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from pathlib import Path

from pallas_registry.environment.variables import LOG_FILE_VARIABLE

MODE = 0o600
"""Only the owner may read what agents log, and may give the file to a group."""

LOOK_AFTER = 1.0
"""Seconds after which it is seen that somebody has renamed, removed or cut the file."""

_TAIL = 1024 * 1024
"""Bytes at the end of an older file in which a line that was never finished is looked for."""


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
    ):  # /dev/null is meant; a pipe would block
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


class RotatingFile:
    """Appends lines to `path`; past `max_bytes` it becomes `path.1`, and so on up to `path.<backups>`.

    The file is opened by the first line, again after every failure, and where another one has its name: that of
    somebody else who rotates logs. One process, one thread, but for `look`.
    """

    def __init__(self, path: Path, *, max_bytes: int, backups: int, look_after: float = LOOK_AFTER) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._backups = backups
        self._mode = MODE
        self._descriptor: int | None = None
        self._size = 0
        self._regular = True
        self._look_after = look_after
        self._looked = 0.0

    def look(self) -> None:
        """See with the next line whether the file is still the one of its name. For any thread."""
        self._looked = 0.0

    def write(self, line: bytes) -> None:
        """Append one line, given without its line feed.

        Raises:
            OSError: it cannot be written; nothing of it is in the file then.
        """
        data = line + b"\n"
        try:
            descriptor = self._ready_for(len(data))
            self._append(descriptor, data)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Close the file; the next line opens it again."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):  # a late complaint of a network file system
                os.close(self._descriptor)
            self._descriptor = None

    def _ready_for(self, length: int) -> int:
        if (now := time.monotonic()) >= self._looked + self._look_after:
            self._looked = now
            self._follow_name()
        if self._descriptor is None:
            self._open()
        if self._regular and self._size and self._size + length > self._max_bytes:
            self.close()
            self._rotate()
            self._open()
        assert self._descriptor is not None
        return self._descriptor

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY
        self._descriptor = os.open(self._path, flags, self._mode)
        status = os.fstat(self._descriptor)
        if _is_everybodys(status):
            os.fchmod(self._descriptor, MODE)
        elif stat.S_ISREG(status.st_mode):  # what its owner has given to a group stays the group's
            self._mode = stat.S_IMODE(status.st_mode) & 0o660 | MODE
        for older in self._names()[1:]:
            with contextlib.suppress(OSError):
                if _is_everybodys(older.lstat()):  # of a version that left them so
                    older.chmod(MODE)
        self._regular = stat.S_ISREG(status.st_mode)
        self._size = status.st_size if self._regular else 0
        if self._size:
            self._drop_torn_line(self._descriptor)

    def _follow_name(self) -> None:
        """Let go of a file that has another name now, or none; and see what was cut off."""
        if self._descriptor is None or not self._regular:
            return
        opened = os.fstat(self._descriptor)
        try:
            is_same = os.path.samestat(opened, self._path.stat())
        except FileNotFoundError:
            is_same = False
        if is_same:
            self._size = opened.st_size
        else:
            self.close()

    def _names(self) -> list[Path]:
        """The path and those of its predecessors, the newest first."""
        return [self._path, *(Path(f"{self._path}.{number}") for number in range(1, self._backups + 1))]

    def _drop_torn_line(self, descriptor: int) -> None:
        """Cut off what a killed writer left without a line feed, which no reader could parse."""
        start = max(self._size - _TAIL, 0)
        tail = os.pread(descriptor, self._size - start, start)
        whole = start + tail.rfind(b"\n") + 1
        if start < whole < self._size:
            os.ftruncate(descriptor, whole)
            self._size = whole
        elif not tail.endswith(b"\n"):  # no log of ours: leave it, but begin on a line of our own
            self._append(descriptor, b"\n")

    def _append(self, descriptor: int, data: bytes) -> None:
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        except OSError:
            if self._regular and len(rest) < len(data):
                os.ftruncate(descriptor, self._size)
            raise
        if self._regular:
            self._size += len(data)

    def _rotate(self) -> None:
        names = self._names()
        for newer, older in zip(reversed(names[:-1]), reversed(names[1:]), strict=True):
            with contextlib.suppress(FileNotFoundError):
                newer.replace(older)


def _is_everybodys(status: os.stat_result) -> bool:
    """Whether it is a file of ours that others than its owner and its group may read or write."""
    is_ours = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
    return is_ours and bool(status.st_mode & 0o007)
