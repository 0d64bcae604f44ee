"""How a line looks in a terminal: columns, widths, colours. Pure.

Knows nothing of what is said. What comes from agents is escaped here; addresses are never cut, so that they can be
copied and clicked.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pallas_common.terminal_text import terminal_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pallas_supervisor.logs.console.lines import Say, Tone

_CODES: Mapping[Tone, int] = {"good": 32, "bad": 31, "warn": 33, "dim": 2}
"""Colours of the terminal's own palette, which its user has chosen to be readable."""

LONGEST_NAME = 24
WORD = 8
"""Columns of the word: `degraded`."""
LEAST = 24
"""Columns for texts, however narrow the terminal is."""
MOST_LINES = 6
"""Lines of one text; of an error of many kilobytes the beginning is enough here."""
LONGEST_TEXT = 2_000


@dataclass(frozen=True, slots=True)
class Layout:
    """How lines are drawn.

    Args:
        width: columns of the terminal.
        colours: whether there are colours.
        names: columns of the names of agents.
    """

    width: int
    colours: bool
    names: int = 6

    def draw(self, say: Say, clock: str = "") -> str:
        """The line, or lines, each with its line feed; `clock` is the time of day, where it is shown."""
        time = f"{clock}  " if clock else ""
        if not say.about:
            lead, lines = time, [*_wrapped(say.text, self.width - len(time), len(time))] or [""]
        else:
            name = _cut(terminal_line(say.about), self.names)
            lead = f"{time}{name}{' ' * (self.names - columns(name))}  {say.word:<{WORD}}  "
            lines = [*_wrapped(say.text, self.width - len(lead), len(lead))] or [""]
            time = self._paint(time, "dim")
            lead = (
                lead.replace(f"  {say.word}", f"  {self._paint(say.word, say.tone)}", 1) if say.word else lead
            )
            lead = time + lead.removeprefix(f"{clock}  " if clock else "")
        indent = " " * (len(clock) + 2 if clock else 0)
        if say.about:
            indent += " " * (self.names + WORD + 4)
        if say.note:
            lines = self._noted(lines, say.note, len(indent))
        drawn = [(lead if number == 0 else indent) + line for number, line in enumerate(lines)]
        for detail in say.details:
            drawn += [indent + self._paint(line, "dim") for line in _detail(detail, self.width - len(indent))]
        return "".join(f"{line.rstrip()}\n" for line in drawn)

    def _noted(self, lines: list[str], note: str, indent: int) -> list[str]:
        shown = self._paint(f"({note})", "dim")
        if indent + columns(lines[-1]) + len(note) + 4 <= self.width:
            return [*lines[:-1], f"{lines[-1]}  {shown}" if lines[-1] else shown]
        return [*lines, shown]

    def _paint(self, text: str, tone: Tone) -> str:
        code = _CODES.get(tone)
        return text if code is None or not self.colours or not text.strip() else f"\x1b[{code}m{text}\x1b[0m"


def columns(text: str) -> int:
    """The columns that a text takes in a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


def _wrapped(text: str, width: int, lead: int) -> Iterator[str]:
    """The text in lines of that width at most; beside a long lead there is `LEAST`.

    Addresses and paths stay whole, so that they can be copied.
    """
    width = max(width, LEAST if lead else 1)
    cut = len(text) > LONGEST_TEXT
    line, number = "", 1
    for word in _pieces(terminal_line(" ".join(text[:LONGEST_TEXT].split())).split(" "), width):
        longer = f"{line} {word}" if line else word
        if columns(longer) <= width or not line:
            line = longer
            continue
        if number == MOST_LINES:
            cut = True
            break
        yield line
        line, number = word, number + 1
    if line:
        yield f"{_cut(line, width - 2)} …" if cut else line


def _pieces(words: list[str], width: int) -> Iterator[str]:
    for word in words:
        if columns(word) <= width or "://" in word or word.startswith("/"):
            yield word
            continue
        while columns(word) > width:
            head = _head(word, width)
            yield head
            word = word[len(head) :]
        if word:
            yield word


def _head(text: str, width: int) -> str:
    used = 0
    for place, character in enumerate(text):
        used += columns(character)
        if used > width:
            return text[: max(place, 1)]
    return text


def _cut(text: str, width: int) -> str:
    return text if columns(text) <= width or "://" in text else _head(text, max(width - 1, 1)) + "…"


def _detail(text: str, width: int) -> Iterator[str]:
    """One line, cut, or wrapped where an address would be."""
    line = terminal_line(text[:LONGEST_TEXT])
    if columns(line) <= max(width, LEAST) or "://" not in line:
        yield _cut(line, max(width, LEAST))
    else:
        yield from _wrapped(text, width, 1)
