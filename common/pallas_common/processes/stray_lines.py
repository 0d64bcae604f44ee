"""What a server writes although only messages belong there: told once, and counted.

Knows the log; nothing of messages.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST = 200
"""Characters of a line that are shown."""
TOLD_EVERY = 600.0
"""Seconds between two records of how many there have been."""


class StrayLines:
    """Those of one server.

    Args:
        name: of the server.
        warn: puts a message into the log.
        shown: makes a text of some characters that may be logged of a line: on one line, without secrets.
    """

    def __init__(self, name: str, warn: Callable[[str], None], shown: Callable[[str, int], str]) -> None:
        self.count = 0
        self._name = name
        self._warn = warn
        self._shown = shown
        self._told = 0.0

    def add(self, line: bytes) -> None:
        """There is one more."""
        if not line.strip():
            return
        self.count += 1
        now = time.monotonic()
        if self.count > 1 and now - self._told < TOLD_EVERY:
            return
        self._told = now
        if self.count == 1:
            text = self._shown(line[: 4 * LONGEST].decode("utf-8", "replace"), LONGEST)
            self._warn(
                f"{self._name}: wrote what is no message of MCP, which is passed over: {text}; more of it is "
                "counted (what a program prints belongs on its standard error)"
            )
        else:
            self._warn(f"{self._name}: lines so far that are no messages of MCP: {self.count}")


def is_perhaps_message(line: bytes) -> bool:
    """Whether a line can be a message at all, which costs nothing to see."""
    return line.lstrip().startswith(b"{")
