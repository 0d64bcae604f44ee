"""Large requests, of either surface: which are not read, and which are checked beside the loop.

Knows JSON texts and loops; must not know what a request says, nor HTTP.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_VALUES = 100_000
"""Lists, objects and their entries of a body: those of the longest conversation. More of them hold the loop."""

LARGE = 64 * 1024
"""Bytes of a body from which on it is checked beside the loop: for some that takes seconds."""


def has_too_many_values(body: bytes) -> bool:
    """Whether a JSON text has more than `MAX_VALUES` lists, objects and entries.

    Strings, which may have as many commas as they like, are left out only where that matters: it takes its time.
    """
    if len(body) < MAX_VALUES or not _has_many_marks(body):
        return False
    bare = body.replace(rb"\\", b"").replace(rb"\"", b"")
    parts = bare.split(b'"', 4 * MAX_VALUES)
    # An entry has two strings at most.
    return len(parts) > 4 * MAX_VALUES or _has_many_marks(b"".join(parts[::2]))


def _has_many_marks(text: bytes) -> bool:
    """Whether more than `MAX_VALUES` of the bytes are among those before a value."""
    left = MAX_VALUES
    for mark in b",[{":
        # To find reads as fast as memory gives, where there is little; to count does not.
        place = text.find(mark)
        while place >= 0:
            left -= 1
            if left < 0:
                return True
            place = text.find(mark, place + 1)
    return False


async def beside[Result](size: int, check: Callable[[], Result]) -> Callable[[], Result]:
    """Gives, or raises, what `check` does, which for a large body runs in a thread: the loop goes on meanwhile."""
    if size < LARGE:
        return check
    checking = asyncio.get_running_loop().run_in_executor(None, check)
    await asyncio.wait((checking,))
    return checking.result
