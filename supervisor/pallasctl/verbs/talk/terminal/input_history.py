"""What a person has typed in chats, kept in a file of theirs from one chat to the next.

Knows the file: one entry a line, as a string of JSON, for a message may have several lines. It is the user's alone
(0600), and bounded. Where it cannot be used, chats go on without.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

VARIABLE = "PALLAS_CHAT_HISTORY"
MOST_ENTRIES = 1000
LONGEST_ENTRY = 8 * 1024
"""Characters; what is longer is not kept."""
LARGEST_FILE = 4 * 1024 * 1024
"""Bytes after which older entries are left out, when the next chat begins."""


def history_file(environ: Mapping[str, str]) -> Path | None:
    """Where it is: `$PALLAS_CHAT_HISTORY`, which may be empty for nowhere, else in the user's state directory.

    That is `$XDG_STATE_HOME/pallas`, or `~/.local/state/pallas` where the variable is unset, or relative, as the XDG
    Base Directory Specification has it.
    """
    if (named := environ.get(VARIABLE)) is not None:
        return Path(named).expanduser().absolute() if named else None
    base = environ.get("XDG_STATE_HOME", "")
    if not base.startswith("/"):
        home = environ.get("HOME", "")
        if not home.startswith("/"):
            return None
        base = f"{home}/.local/state"
    return Path(base, "pallas", "chat_history")


class InputHistory:
    """The file; None stands for none.

    Raises nothing: `problem` says why it cannot be used.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.problem = ""
        self.entries: list[str] = []
        """Of earlier chats, the oldest first."""
        if path is not None:
            try:
                self._load(path)
            except (OSError, RuntimeError) as error:
                self._give_up(error)

    def add(self, entry: str) -> None:
        """Keep one more, at once: the chat may end in any way."""
        if self._path is None or not entry.strip() or len(entry) > LONGEST_ENTRY:
            return
        try:
            descriptor = _opened(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            with os.fdopen(descriptor, "wb", buffering=0) as file:
                file.write(_lines([entry]))  # in one piece: another chat may write, too
        except OSError as error:
            self._give_up(error)

    def _load(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            descriptor = _opened(path, os.O_RDONLY)
        except FileNotFoundError:
            return
        with os.fdopen(descriptor, "rb") as file:
            size = os.fstat(descriptor).st_size
            file.seek(max(0, size - LARGEST_FILE))
            data = file.read(LARGEST_FILE)
        found = read_entries(data)
        self.entries = found[-MOST_ENTRIES:]
        if size > LARGEST_FILE or len(found) > 2 * MOST_ENTRIES:
            new = path.with_name(f"{path.name}.{os.getpid()}")
            with os.fdopen(_opened(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
                file.write(_lines(self.entries))
            new.replace(path)

    def _give_up(self, error: Exception) -> None:
        reason = (isinstance(error, OSError) and error.strerror) or error
        self.problem = f"what you type is not kept for the next chat: {self._path}: {reason}"
        self._path = None


def read_entries(data: bytes) -> list[str]:
    """The entries of a file; lines that are none, as half of one, are passed over."""
    found = []
    for line in data.split(b"\n"):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, str) and 0 < len(entry) <= LONGEST_ENTRY and "\0" not in entry:
            found.append(entry)
    return found


def _lines(entries: Iterable[str]) -> bytes:
    # In ASCII: a half of a surrogate pair, as a byte that is no UTF-8 is read, has a form there.
    return b"".join(json.dumps(entry).encode() + b"\n" for entry in entries)


def _opened(path: Path, flags: int) -> int:
    """A regular file of this user, for nobody else to read; never one behind a link that somebody has put there."""
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o600)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
        os.close(descriptor)
        raise PermissionError(errno.EPERM, "it is not a file of yours")
    os.fchmod(descriptor, 0o600)
    return descriptor
