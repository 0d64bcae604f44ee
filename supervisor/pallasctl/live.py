"""A view that stays on the terminal and is drawn again and again: `status --watch`, `top`.

Knows terminals, signals and keys; nothing of what is shown. Usage:

    with Screen() as screen:
        while "q" not in screen.wait(2.0):
            screen.draw(head, rows, foot, what="agent")

The terminal is as it was before when the block is left, by whatever: also by Ctrl-C, SIGTERM and Ctrl-Z.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import tty
import unicodedata
from typing import TYPE_CHECKING, Any, Self

import click

from pallas_common.problems import counted
from pallasctl.text import paint

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import FrameType, TracebackType

    type Handler = Callable[[int, FrameType | None], Any] | int | signal.Handlers | None

# Alternate screen, no cursor, no line wrapping: a line that is too long must not move the others.
_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
_LEAVE = "\x1b[?7h\x1b[?25h\x1b[?1049l"
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
"""Around a picture: terminals that know this synchronized update show all of it at once, others ignore it."""

KEYS_AT_ONCE = 256
"""Bytes of typed keys that are read at once."""

_WIDE = frozenset("WF")
_UNKNOWN_SIZE = os.terminal_size((80, 24))


def is_live_terminal() -> bool:
    """Whether stdout is a terminal on which something can be drawn in place."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def require_live_terminal(option: str, instead: str) -> None:
    """Refuse what needs such a terminal.

    Args:
        option: what was asked for, as it is written.
        instead: what to do in place of it, as a clause.

    Raises:
        click.UsageError: there is none.
    """
    if not is_live_terminal():
        raise click.UsageError(f"{option} draws on a terminal, and stdout is none; {instead}")


class Screen:
    """The terminal's alternate screen while the block lasts. For the main thread, and one at a time."""

    def __init__(self) -> None:
        self._shown: list[str] = []
        self._resized = False
        self._keys = sys.stdin.fileno() if sys.stdin is not None and sys.stdin.isatty() else None
        self._before: list[Any] = []
        self._handlers: Mapping[int, Handler] = {}

    def __enter__(self) -> Self:
        self._signals, self._wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        # A signal that comes just before the wait begins must end it, too: only this descriptor can promise that.
        self._wakeup_before = signal.set_wakeup_fd(self._wakeup, warn_on_full_buffer=False)
        handlers: Mapping[int, Handler] = {
            signal.SIGWINCH: self._note_resize,
            signal.SIGTSTP: self._suspend,
            signal.SIGTERM: _end,
        }
        self._handlers = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            self._take()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with contextlib.suppress(OSError, termios.error):  # the terminal may have gone
                self._give_back()
        finally:
            for number, handler in self._handlers.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(self._wakeup_before)
            os.close(self._signals)
            os.close(self._wakeup)

    @property
    def size(self) -> os.terminal_size:
        """Columns and lines, as they are now."""
        with contextlib.suppress(OSError):
            size = os.get_terminal_size(sys.stdout.fileno())
            return os.terminal_size(
                (size.columns or _UNKNOWN_SIZE.columns, size.lines or _UNKNOWN_SIZE.lines)
            )
        return _UNKNOWN_SIZE

    def draw(
        self, head: Sequence[str], rows: Sequence[str] = (), foot: Sequence[str] = (), *, what: str = "line"
    ) -> None:
        """Show these lines, cut to the screen; where the rows do not fit, the last says how many more there are.

        Args:
            head: lines above; what they and the rows hold is safe for a terminal already, colours included.
            rows: what there may be too much of.
            foot: lines below.
            what: what a row is about, as a noun in the singular.
        """
        anew, self._resized = self._resized, False  # first: the size may change again from here on
        columns, height = self.size
        lines = [cut(line, columns) for line in picture(head, rows, foot, height, what)]
        known = [] if anew else self._shown
        parts = ["\x1b[2J"] if anew else []
        for number, line in enumerate(lines):
            if number >= len(known) or known[number] != line:
                parts.append(f"\x1b[{number + 1};1H\x1b[2K{line}")
        if len(known) > len(lines):
            parts.append(f"\x1b[{len(lines) + 1};1H\x1b[J")
        self._shown = lines
        if parts:
            self._write(f"{_BEGIN}{''.join(parts)}{_END}")

    def wait(self, seconds: float, *sources: int) -> str:
        """Wait so long, and less if a key is typed, the size changes or one of the descriptors can be read.

        Returns:
            The keys that were typed, as text; empty if none was.

        Raises:
            KeyboardInterrupt: Ctrl-C.
        """
        keys = [] if self._keys is None else [self._keys]
        ready, _, _ = select.select([self._signals, *keys, *sources], [], [], max(0.0, seconds))
        if self._signals in ready:
            os.read(self._signals, KEYS_AT_ONCE)
        if self._keys is None or self._keys not in ready:
            return ""
        typed = os.read(self._keys, KEYS_AT_ONCE)
        if not typed:  # it has been closed, and would be ready for ever
            self._keys = None
        return typed.decode("utf-8", "replace")

    def _take(self) -> None:
        if self._keys is not None:
            self._before = termios.tcgetattr(self._keys)
            tty.setcbreak(
                self._keys
            )  # keys come one by one and are not shown; Ctrl-C and Ctrl-Z stay signals
        self._shown = []
        self._write(_ENTER)

    def _give_back(self) -> None:
        try:
            self._write(_LEAVE)
        finally:
            if self._keys is not None and self._before:
                termios.tcsetattr(self._keys, termios.TCSADRAIN, self._before)

    def _note_resize(self, _number: int, _frame: FrameType | None) -> None:
        self._resized = True

    def _suspend(self, number: int, _frame: FrameType | None) -> None:
        """Stop as the user wants, with the terminal as it was, until told to go on."""
        self._give_back()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.signal(number, self._suspend)
        self._take()
        self._resized = True

    @staticmethod
    def _write(text: str) -> None:
        # Together and at once: text that Python's stream kept back would come out after the screen has been left.
        sys.stdout.flush()
        rest = memoryview(text.encode("utf-8", "replace"))
        while rest:
            rest = rest[os.write(sys.stdout.fileno(), rest) :]


def _end(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def picture(
    head: Sequence[str], rows: Sequence[str], foot: Sequence[str], height: int, what: str = "line"
) -> list[str]:
    """The lines that fit; rows give way first, then the foot."""
    room = height - len(head) - len(foot)
    if len(rows) <= room:
        return [*head, *rows, *foot]
    shown = rows[: max(0, room - 1)]
    more = paint(f"… and {counted(len(rows) - len(shown), f'more {what}')}", "dim")
    return [*head, *shown, more, *foot][:height]


def cut(line: str, columns: int) -> str:
    """The line, no wider than so many columns; colours take no room, and end where the text does."""
    if len(line) <= columns and line.isascii():
        return line
    kept: list[str] = []
    used, position, end, coloured = 0, 0, 0, False
    while position < len(line):
        if line.startswith("\x1b[", position) and (stop := line.find("m", position)) > 0:
            kept.append(line[position : stop + 1])
            coloured = not line.startswith("\x1b[0m", position)
            position = stop + 1
            continue
        used += _width(line[position])
        if used > columns:
            return "".join(kept[:end]) + ("…" if columns > 0 else "") + ("\x1b[0m" if coloured else "")
        kept.append(line[position])
        if used < columns:  # this far there is room for the ellipsis
            end = len(kept)
        position += 1
    return line


def _width(character: str) -> int:
    """How many columns a terminal gives it."""
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in _WIDE else 1
