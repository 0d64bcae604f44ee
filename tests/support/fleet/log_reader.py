"""Reads a rotating log file as it grows: every line once, wherever it has been renamed to. Every line has to parse.

Knows the file names of the rotation; nothing of who writes.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


class LogReader:
    """Remembers how far each file, by its inode, has been read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: dict[int, int] = {}
        self.lines = 0

    def problems(self) -> list[str]:
        """What is wrong with the lines since the last look."""
        found = []
        for file in self._path.parent.glob(f"{self._path.name}*"):
            if not file.name.endswith(".lock"):
                found += self._check(file)
        return found

    def _check(self, file: Path) -> list[str]:
        try:
            with file.open("rb") as opened:
                status = os.fstat(opened.fileno())
                begin = self._read.get(status.st_ino, 0)
                if begin > status.st_size:  # another file that got a deleted one's number
                    begin = 0
                opened.seek(begin)
                whole, feed, _ = opened.read().rpartition(b"\n")
        except FileNotFoundError:
            return []
        self._read[status.st_ino] = begin + len(whole) + len(feed)
        lines = whole.split(b"\n") if feed else []
        self.lines += len(lines)
        return [f"{file.name}: {wrong}" for line in lines if (wrong := _what_is_wrong(line)) is not None]


def _what_is_wrong(line: bytes) -> str | None:
    try:
        record: Any = json.loads(line)
        missing = {"time", "level", "logger", "message"} - record.keys()
    except (ValueError, AttributeError) as error:
        return f"no record ({error}): {line[:200]!r}"
    return f"without {', '.join(sorted(missing))}: {line[:200]!r}" if missing else None
