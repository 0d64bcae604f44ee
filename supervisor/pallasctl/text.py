"""Text for people: durations, sizes, tables, colours.

Knows the names of states, and no document or verb. What comes from agents may hold what a terminal obeys or hides:
`one_line`.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, Literal, NamedTuple

from pallas_common.terminal_text import terminal_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Colour = Literal["red", "green", "yellow", "cyan", "dim", "bold"]

STATE_COLOURS: Mapping[str, Colour] = {
    "ready": "green",
    "idle": "cyan",
    "stopped": "dim",
    "waiting": "yellow",
    "starting": "yellow",
    "stopping": "yellow",
    "backoff": "yellow",
    "killing": "red",
    "failed": "red",
}
HEALTH_COLOURS: Mapping[str, Colour] = {"ok": "green", "degraded": "yellow", "error": "red", "unknown": "dim"}

_CODES = {"red": 31, "green": 32, "yellow": 33, "cyan": 36, "dim": 2, "bold": 1}
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400


def colour_wanted() -> bool:
    """Whether stdout is a terminal and its user has not declined colour (no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, colour: Colour | None) -> str:
    """The text in a colour, where colour is wanted."""
    if colour is None or not text or not colour_wanted():
        return text
    return f"\x1b[{_CODES[colour]}m{text}\x1b[0m"


def one_line(text: str) -> str:
    """The text as one line that a terminal shows as it is."""
    return terminal_line(" ".join(text.split()))


def format_duration(seconds: float) -> str:
    """Two units at most: `5s`, `3m12s`, `4h05m`, `2d03h`."""
    whole = max(0, int(seconds))
    if whole < _MINUTE:
        return f"{whole}s"
    if whole < _HOUR:
        return f"{whole // _MINUTE}m{whole % _MINUTE:02d}s"
    if whole < _DAY:
        return f"{whole // _HOUR}h{whole % _HOUR // _MINUTE:02d}m"
    return f"{whole // _DAY}d{whole % _DAY // _HOUR:02d}h"


def format_size(size: int | None) -> str:
    """A size in MiB, or a dash."""
    return "-" if size is None else f"{size / 1_048_576:.0f}M"


class Cell(NamedTuple):
    """What a table shows in one place."""

    text: str
    colour: Colour | None = None


def table(header: Sequence[str], rows: Sequence[Sequence[Cell]], *, fit: bool = False) -> str:
    """Columns, two spaces apart; with `fit`, lines are cut to the width of a terminal."""
    every = [[Cell(title, "bold") for title in header], *rows]
    widths = [max(len(cell.text) for cell in column) for column in zip(*every, strict=True)]
    room = shutil.get_terminal_size().columns if fit and sys.stdout.isatty() else None
    return "\n".join(_row(row, widths, room) for row in every)


def _row(row: Sequence[Cell], widths: Sequence[int], room: int | None) -> str:
    shown, used = [], 0
    for cell, width in zip(row, widths, strict=True):
        text = cell.text if room is None else _cut(cell.text, room - used)
        shown.append(paint(text, cell.colour) + " " * (width - len(text)))
        used += width + 2
    return "  ".join(shown).rstrip()


def _cut(text: str, room: int) -> str:
    if len(text) <= room:
        return text
    return text[: room - 1] + "…" if room > 0 else ""
