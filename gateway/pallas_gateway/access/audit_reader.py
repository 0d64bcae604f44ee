"""Reading the audit: the newest lines that fit, and those that come.

Knows the files that `audit` writes; nothing of who asks. It reads in threads, backwards, and never more than it shows
or `MOST_READ`.
"""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pallas_gateway.access.audit import KEPT, older_file

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Mapping
    from pathlib import Path

    type Line = dict[str, Any]

CHUNK = 256 * 1024
"""Bytes that are read at a time."""
MOST_READ = 64 * 1024 * 1024
"""Bytes that are read for one answer; what lies further back is not found."""
MOST_LINES = 10_000
"""Of one answer."""
LONGEST_LINE = 1024 * 1024
LOOK_INTERVAL = 0.5
"""Seconds between two looks for new lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which lines are wanted. Of each, None is any."""

    since: str | None = None
    """RFC 3339 in UTC with microseconds, as lines have it."""
    principal: str | None = None
    """Its id, or its name."""
    action: str | None = None
    """Or what it begins with, before a `.` or `/`."""
    outcome: str | None = None

    def fits(self, line: Line) -> bool:
        """Whether the line is wanted."""
        if self.since is not None and str(line.get("time")) < self.since:
            return False
        if self.principal is not None and self.principal not in (line.get("principal"), line.get("name")):
            return False
        # Of what has two lines the second says all: the first is for who asks for it, and for what has no second.
        if line.get("outcome") != self.outcome and (self.outcome or line.get("outcome") == "begun"):
            return False
        action = str(line.get("action"))
        wanted = self.action
        return wanted is None or action == wanted or action.startswith((f"{wanted}.", f"{wanted}/"))

    def is_before(self, line: Line) -> bool:
        """Whether neither it nor what lies before it can fit."""
        return self.since is not None and str(line.get("time")) < self.since


def newest(path: Path, count: int, wanted: Filter) -> list[Line]:
    """The newest lines that fit, oldest first; blocks.

    Raises:
        OSError: a file cannot be read.
    """
    found: list[Line] = []
    for line in _backwards(path):
        if len(found) >= min(count, MOST_LINES) or wanted.is_before(line):
            break
        if wanted.fits(line):
            found.append(line)
    return found[::-1]


def left_by(path: Path, processes: Mapping[str, str]) -> list[Line]:
    """What these processes have begun and never ended, oldest first; blocks.

    Args:
        processes: name → when it began, as lines have it.

    Raises:
        OSError: a file cannot be read.
    """
    ended: set[object] = set()
    left: list[Line] = []
    since = min(processes.values(), default="~")
    for line in _backwards(path):
        if str(line.get("time")) < since:
            break
        if line.get("outcome") != "begun":
            ended.add(line.get("id"))
        elif line.get("process") in processes and line.get("id") not in ended:
            left.append(line)
    return left[::-1]


async def following(path: Path, count: int, wanted: Filter) -> AsyncGenerator[Line]:
    """The newest lines that fit, then those that come, for ever.

    Raises:
        OSError: a file cannot be read.
    """
    tail = _Tail(path)
    try:
        for line in await asyncio.to_thread(newest, path, count, wanted):
            yield line
        while True:
            for line in await asyncio.to_thread(tail.more):
                if wanted.fits(line):
                    yield line
            if not tail.has_more:
                await asyncio.sleep(LOOK_INTERVAL)
    finally:
        tail.close()


def _backwards(path: Path) -> Iterator[Line]:
    left = MOST_READ
    for number in range(KEPT + 1):
        try:
            descriptor = _open(path if number == 0 else older_file(path, number))
        except FileNotFoundError:
            if number:
                return
            continue  # it was moved away just now
        try:
            end, rest = os.fstat(descriptor).st_size, b""
            while end > 0 and left > 0:
                begin = max(0, end - CHUNK)
                data = os.pread(descriptor, end - begin, begin) + rest
                left -= end - begin
                end = begin
                first, *lines = data.split(b"\n")
                rest = first if len(first) <= LONGEST_LINE else b""
                yield from _lines(reversed(lines))
            yield from _lines([rest])
        finally:
            os.close(descriptor)


def _lines(texts: Any) -> Iterator[Line]:
    """Those that are lines of the audit: a full disk may have torn one."""
    for text in texts:
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(line, dict):
            yield line


def _open(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)


class _Tail:
    """What is written from now on, also after the file was moved away."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rest = b""
        self._descriptor: int | None = None
        self.has_more = False
        """Whether the last look did not take all."""
        try:
            self._descriptor = _open(path)
            self._at = os.fstat(self._descriptor).st_size
        except FileNotFoundError:
            self._at = 0

    def more(self) -> list[Line]:
        """The lines since the last look; some at a time."""
        if self._descriptor is None:
            try:
                self._descriptor, self._at = _open(self._path), 0
            except FileNotFoundError:
                return []
        data = os.pread(self._descriptor, CHUNK, self._at)
        self._at += len(data)
        self.has_more = len(data) == CHUNK
        if not data and self._is_moved():
            # What was written before it was moved has been read.
            self.close()
            self.has_more = True
            return []
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LONGEST_LINE:
            self._rest = b""
        return list(_lines(lines))

    def close(self) -> None:
        """Nothing more is read."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _is_moved(self) -> bool:
        try:
            assert self._descriptor is not None
            return not os.path.samestat(os.lstat(self._path), os.fstat(self._descriptor))
        except FileNotFoundError:
            return False  # until there is a new one
