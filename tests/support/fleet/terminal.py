"""A program on a terminal of its own, and what that shows: a pty, and the few control sequences that Pallas writes."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

PATIENCE = 120.0
"""Seconds after which something that has to be shown is not; on a busy machine a program takes long to start."""

_SEQUENCE = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])|\r\n|\r|\n|[^\x1b\r\n]")
_BEGUN = re.compile(r"\x1b(\[\??[0-9;]*)?\Z")


class Picture:
    """What a terminal shows, without colours."""

    def __init__(self) -> None:
        self.rows: dict[int, str] = {}
        self.modes: dict[str, bool] = {}
        """Private modes that were set (`h`) or reset (`l`), by number."""
        self._row, self._column = 0, 0

    def take(self, text: str) -> None:
        """Write this."""
        for part in _SEQUENCE.finditer(text):
            if part[3] is None:
                self._put(part[0])
            elif part[1]:
                self.modes[part[2]] = part[3] == "h"
            else:
                self._obey(part[3], part[2])

    def _obey(self, order: str, numbers: str) -> None:
        if order == "H":
            row, _, column = numbers.partition(";")
            self._row, self._column = int(row or 1) - 1, int(column or 1) - 1
        elif order == "K":
            self.rows.pop(self._row, None)
        elif order == "J":
            first = 0 if numbers == "2" else self._row
            self.rows = {row: text for row, text in self.rows.items() if row < first}

    def _put(self, text: str) -> None:
        if "\r" in text:
            self._column = 0
        if "\n" in text:
            self._row += 1
        if text[0] not in "\r\n":
            line = self.rows.get(self._row, "").ljust(self._column)
            self.rows[self._row] = line[: self._column] + text + line[self._column + 1 :]
            self._column += 1

    @property
    def lines(self) -> list[str]:
        """The lines up to the last that holds something."""
        return [self.rows.get(row, "").rstrip() for row in range(max(self.rows, default=-1) + 1)]


class Terminal:
    """A program that runs on a terminal, and the person before it."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.process = process
        self.picture = Picture()
        self.output = ""
        self._master = master
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._begun = ""
        """Of a control sequence whose rest has not come yet."""

    def resize(self, columns: int, lines: int) -> None:
        """Give the terminal another size; the program gets SIGWINCH."""
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def type(self, keys: str) -> None:
        """Press keys; `\\x03` is Ctrl-C."""
        os.write(self._master, keys.encode())

    def echoes(self) -> bool:
        """Whether what is typed is shown, and goes to the program line by line: as a shell leaves a terminal."""
        flags: int = termios.tcgetattr(self._master)[3]
        return bool(flags & termios.ECHO and flags & termios.ICANON)

    def until(self, reached: Callable[[Picture], bool]) -> Picture:
        """Read what the program writes until the picture is as wanted, and whole where the program says what is."""
        deadline = time.monotonic() + PATIENCE
        while self.picture.modes.get("2026") or not reached(self.picture):
            if not self._read(deadline):
                raise AssertionError(f"it shows {self.picture.lines}, after {self.output[-2000:]!r}")
        return self.picture

    def end(self) -> int:
        """Read on until the program has ended; its exit status, negative for a signal."""
        deadline = time.monotonic() + PATIENCE
        while self._read(deadline):
            pass
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        """Kill the program, if it is there still."""
        self.process.kill()
        self.process.wait()
        os.close(self._master)

    def _read(self, deadline: float) -> bool:
        """Take in what comes next; False where nothing comes in time, or the program has ended."""
        ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return False
        try:
            text = self._decoder.decode(os.read(self._master, 65_536))
        except OSError:  # nobody has the other end any more
            return False
        self.output += text
        text = self._begun + text
        self._begun = begun[0] if (begun := _BEGUN.search(text)) else ""
        self.picture.take(text.removesuffix(self._begun))
        return True


@contextmanager
def terminal(
    command: Sequence[str],
    *,
    columns: int = 100,
    lines: int = 24,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Terminal]:
    """Run a command on a terminal of this size; it is killed at the end."""
    surroundings = {**os.environ, "TERM": "xterm-256color", **(environment or {})}
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    # The leader of a session that has this terminal, as what a shell starts: Ctrl-C and a new size reach it.
    leading = ["setsid", "--ctty", *command]
    process = subprocess.Popen(leading, stdin=slave, stdout=slave, stderr=slave, env=surroundings)
    os.close(slave)
    running = Terminal(process, master)
    try:
        yield running
    finally:
        running.close()
