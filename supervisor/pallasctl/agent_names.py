"""A column of agents' names beside lines that come one after the other: aligned, each name in a colour of its own.

Knows widths and colours; nothing of agents.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING
from zlib import crc32

from pallasctl.text import colour_wanted, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

# Of the 256 colours those of medium lightness, which can be read on black and on white, and none that means a state.
_PALETTE = (31, 97, 132, 65, 130, 67, 30, 136)

WIDEST = 24
"""Characters for which others are moved aside; a longer name moves its own line only."""


class AgentNames:
    """The names that have been shown so far.

    Args:
        known: names that will come, as far as that is known: nothing moves for them.
        without: names that get no colour.
    """

    def __init__(self, known: Iterable[str] = (), *, without: Iterable[str] = ()) -> None:
        self._width = 0
        self._colours: dict[str, int] = {}
        self._without = frozenset(without)
        for name in known:
            self._meet(one_line(name))

    def cell(self, name: str, end: str = "") -> str:
        """The name with `end` behind it, as wide as those before it where that is for a person's eyes."""
        shown = one_line(name)
        self._meet(shown)
        text = f"{shown}{end}"
        pad = " " * (self._width + len(end) - len(text)) if sys.stdout.isatty() else ""
        if name in self._without or not colour_wanted():
            return text + pad
        return f"\x1b[38;5;{self._colour(shown)}m{text}\x1b[0m{pad}"

    def _meet(self, name: str) -> None:
        if len(name) <= WIDEST:
            self._width = max(self._width, len(name))

    def _colour(self, name: str) -> int:
        """The colour that the name always gets, or the next one that no other name has got yet."""
        if (known := self._colours.get(name)) is None:
            first = crc32(name.encode("utf-8", "replace")) % len(_PALETTE)
            wanted = [*_PALETTE[first:], *_PALETTE[:first]]
            taken = set(self._colours.values())
            known = self._colours[name] = next((one for one in wanted if one not in taken), wanted[0])
        return known
