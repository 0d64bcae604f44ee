"""What turns under way have told, in a file each: whoever puts a turn in order that was cut off has its words.

Text goes to its readers piece by piece, and a transaction for each piece would cost more than the turn. So a piece is
appended to a file before it is told, which takes microseconds: a file outlives the SIGKILL of who wrote it. It is not
synced: a power loss may take what no transaction had yet. Knows files; must not know what the entries mean.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FOLDER = "gateway-turns"
LARGEST = 512 * 1024 * 1024
"""Bytes of a journal that are read."""

_encode = json.JSONEncoder(separators=(",", ":")).encode
"""Made once: `json.dumps` makes one for each call that is not in its own format."""

_log = get_logger("pallas.gateway.conversations")


class Journals:
    """Those of all turns of a deployment, whichever process of the gateway works on them.

    Args:
        state_directory: of the deployment.

    Raises:
        OSError: their folder cannot be made.
    """

    def __init__(self, state_directory: str | Path) -> None:
        self._folder = Path(state_directory, FOLDER)
        self._folder.mkdir(mode=0o700, exist_ok=True)

    def of(self, turn: str) -> Journal:
        """A turn's own, for the process that works on it; there is a file from the first entry on."""
        return Journal(self._folder / turn)

    def turns(self) -> list[str]:
        """The turns that have one; none where their folder was taken away, which costs no more than their words."""
        try:
            return [path.name for path in self._folder.iterdir()]
        except OSError:
            return []

    def entries(self, turn: str) -> Iterator[list[object]]:
        """What was appended, in its order, as far as it is whole; nothing where there is no journal.

        One is read after the other: all of a long turn would take gigabytes.
        """
        return _read(self._folder / turn)

    def remove(self, turn: str) -> None:
        """It is needed no more. Harmless where there is none."""
        with contextlib.suppress(OSError):
            (self._folder / turn).unlink()


class Journal:
    """What one turn has told. Made by `Journals`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._failed = False

    def add(self, entry: Sequence[object]) -> None:
        """Append an entry. Where that fails the turn goes on, and a crash may cost its words: the log says so."""
        if self._failed:
            return
        try:
            if self._descriptor is None:
                flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
                self._descriptor = os.open(self._path, flags, 0o600)
            line = _encode(entry).encode() + b"\n"
            is_whole = os.write(self._descriptor, line) == len(line)  # not on a full disk
            why = "not all of an entry could be written"
        except OSError as error:
            is_whole, why = False, str(error)
        if not is_whole:  # behind a torn line nothing would be read
            self._failed = True
            _log.warning(f"what a turn says would not survive a crash of the gateway, {self._path}: {why}")

    def close(self) -> None:
        """Nothing more is appended; the file stays."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def remove(self) -> None:
        """The turn is in the store as it ended."""
        self.close()
        with contextlib.suppress(OSError):
            self._path.unlink()


def _read(path: Path) -> Iterator[list[object]]:
    try:
        # What is no file of ours does not keep us waiting.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return
    with contextlib.suppress(OSError), os.fdopen(descriptor, "rb") as file:
        left = LARGEST
        while left > 0 and (line := file.readline(left)).endswith(b"\n"):
            left -= len(line)
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError):
                return
            if not isinstance(entry, list):
                return
            yield entry
