"""The reading end of one pipe of a worker: whole lines, of bounded length, as they come.

Knows one descriptor; nothing of what the lines mean.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections import deque
from typing import TYPE_CHECKING

from pallas_common.secrets.shortening import seam

if TYPE_CHECKING:
    from pallas_common.secrets.values import KnownSecrets

CHUNK = 64 * 1024
LONGEST_LINE = 64 * 1024
"""Bytes of a report or a record, more than any has."""
LONGEST_OUTPUT = 15 * 1024
"""Bytes of a printed line, which so becomes a record that holds all of it."""
PIPE_SIZE = 1024 * 1024
LOOKAHEAD = 8 * 1024
"""Bytes beyond a piece that are looked at before it is cut off."""


class WorkerPipe:
    """A pipe that a worker writes to.

    Args:
        longest: bytes of a line; a longer one comes in pieces.
        secrets: what is not cut in two.
    """

    def __init__(self, longest: int, secrets: KnownSecrets) -> None:
        self.descriptor, self.theirs = os.pipe()
        os.set_blocking(self.descriptor, False)
        with contextlib.suppress(PermissionError):  # above the user's limit for pipes: the default size does
            fcntl.fcntl(self.descriptor, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
        self._longest = longest
        self._secrets = secrets
        self._rest = bytearray()
        self.lines: deque[bytes] = deque()
        """Whole lines that have been read and not yet taken, without their line feeds."""
        self.ended = False
        """No process can write to it any more."""

    def read(self) -> bool:
        """Read one chunk; whether there was anything."""
        data = self._chunk()
        self._rest += data
        *lines, rest = self._rest.split(b"\n")
        for line in lines:
            self._put(bytes(line))
        self._rest = rest
        while len(self._rest) > self._longest + LOOKAHEAD:
            self._rest = bytearray(self._cut(bytes(self._rest)))
        return bool(data)

    def skip(self) -> tuple[bool, int]:
        """Read one chunk and keep nothing of it but the line that it begins.

        Whether there was anything, and how many lines are lost.
        """
        data = self._chunk()
        ended, feed, rest = data.rpartition(b"\n")
        lost = 0
        if feed:
            lost = ended.count(b"\n") + 1
            self._rest = bytearray()
        self._rest += rest
        if len(self._rest) > self._longest:
            lost += 1
            self._rest = bytearray()
        return bool(data), lost

    def end_line(self) -> None:
        """Take what there is of a line without an end for one: nothing more can come."""
        if self._rest:
            self._put(bytes(self._rest))
            self._rest = bytearray()

    def close(self) -> None:
        """Close our end."""
        os.close(self.descriptor)

    def _chunk(self) -> bytes:
        try:
            data = os.read(self.descriptor, CHUNK)
        except BlockingIOError:
            return b""
        self.ended = not data
        return data

    def _put(self, line: bytes) -> None:
        while len(line) > self._longest:
            line = self._cut(line)
        self.lines.append(line)

    def _cut(self, line: bytes) -> bytes:
        """Put the first piece of a long line; the rest of it."""
        text = _decode(line[: self._longest + LOOKAHEAD])
        at, _ = seam(text, len(_decode(line[: self._longest])), self._secrets)
        length = len(text[:at].encode("utf-8", "surrogateescape")) or self._longest
        self.lines.append(line[:length])
        return line[length:]


def _decode(line: bytes) -> str:
    """The line as a text of which each part can be encoded again."""
    return line.decode("utf-8", "surrogateescape")
