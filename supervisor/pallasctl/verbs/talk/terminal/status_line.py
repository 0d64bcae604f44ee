"""What happens while an answer is awaited: one line on stderr that is replaced, and taken away at the end.

Knows terminals; nothing of agents. Where stderr is no terminal there is only the first thing that keeps an answer
waiting, as a line of its own.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from typing import TYPE_CHECKING, Self

from pallasctl.live import cut
from pallasctl.text import format_duration, one_line

if TYPE_CHECKING:
    from collections.abc import Callable

_ERASE = "\r\x1b[K"
_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"


class StatusLine:
    """As a context manager it is there for one call; it may be used again.

    Args:
        quiet: show nothing at all.
    """

    def __init__(self, *, quiet: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._is_live = not quiet and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._is_coloured = not os.environ.get("NO_COLOR")
        self._began = 0.0
        self._text = ""
        self._shown = ""

    def __enter__(self) -> Self:
        self._began = self._clock()
        return self

    def __exit__(self, *_: object) -> None:
        self.hide()

    def hide(self) -> None:
        """Take it away, until something is shown again: another line is about to be written."""
        if self._shown:
            self._write(_ERASE)
        self._text = self._shown = ""

    def show(self, text: str) -> None:
        """What happens from now on."""
        self._text = one_line(text)
        self.refresh()

    def refresh(self) -> None:
        """Bring the time on the line up to date."""
        if not self._is_live or not self._text:
            return
        age = f" ({format_duration(self._clock() - self._began)})"
        text = cut(self._text, shutil.get_terminal_size().columns - 1 - len(age)) + age
        if text != self._shown:
            self._shown = text
            self._write(_ERASE + (f"{_DIM}{text}{_PLAIN}" if self._is_coloured else text))

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()
