"""What MCP servers that run as a command write to stderr: into the log, with the server's name.

Knows pipes and lines; must not know MCP. All processes of a server share one pipe for as long as the worker lives, so
that its reading end need not follow each of them: an agent starts a process for each call. A server is never held up,
and what it writes beyond a bound is counted and left out.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import re
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger
from pallas_worker.redact import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CHUNK = 64 * 1024
"""What a pipe holds by default."""
LONGEST_LINE = 2_000
"""Characters of a line that are kept."""
LINES_PER_SECOND = 20
BURST = 200
"""Lines of one server that are logged: so many at once, and so many a second in the long run."""
TELL_AFTER = 5.0
"""Seconds from the first line that is left out until their number is logged."""
KEPT = 30
"""Lines of one server among which is looked for the one that says what is wrong."""
MAX_SERVERS = 64
"""Servers whose output is read; that of others, which only an agent's own code can attach, is dropped."""

_NAMES_ERROR = re.compile(r"error|fatal|exception|panic", re.IGNORECASE)

_log = get_logger("pallas.worker.server")


@dataclass(slots=True)
class ServerOutput:
    """The stderr of all processes of one server."""

    name: str
    reading: int
    writing: int
    loop: asyncio.AbstractEventLoop
    lines: int = 0
    """Lines so far that are not blank."""
    muted: bool = False
    """Whether lines are only for debugging: those of a server that fails, and is tried again and again."""
    _newest: deque[bytes] = field(default_factory=lambda: deque(maxlen=KEPT))
    """The last of them, the newest last."""
    _rest: bytearray = field(default_factory=bytearray)
    _allowance: float = BURST
    _refilled: float = field(default_factory=time.monotonic)
    _left_out: int = 0

    def fileno(self) -> int:
        """What a process of the server gets as its stderr."""
        return self.writing

    def read(self) -> None:
        """Take in what has been written so far, one chunk of it."""
        try:
            data = os.read(self.reading, CHUNK)
        except BlockingIOError:
            return
        *lines, rest = (self._rest + data).split(b"\n")
        if len(rest) > CHUNK:
            lines.append(rest)
            rest = bytearray()
        self._rest = rest
        self._take(lines)

    def said_since(self, lines: int) -> str | None:
        """What the lines since there were `lines` say is wrong, each as `one_line` has it; None if there are none.

        For when a process of the server has ended: a line that is not ended counts as one.
        """
        _in_no_call(self._read_to_the_end)
        new = min(self.lines - lines, len(self._newest))
        found = what_is_wrong([_text(line) for line in list(self._newest)[len(self._newest) - new :]])
        return " | ".join(one_line(line, LONGEST_LINE) for line in found) or None

    def close(self) -> None:
        """Read no more."""
        os.close(self.reading)
        os.close(self.writing)

    def _read_to_the_end(self) -> None:
        self.read()
        if self._rest:
            rest, self._rest = self._rest, bytearray()
            self._take([rest])

    def _take(self, lines: list[bytearray]) -> None:
        lines = [line for line in lines if not line.isspace() and line]
        if not lines:
            return
        self.lines += len(lines)
        self._newest.extend(bytes(line[: 4 * LONGEST_LINE]) for line in lines[-KEPT:])
        now = time.monotonic()
        self._allowance = min(BURST, self._allowance + (now - self._refilled) * LINES_PER_SECOND)
        self._refilled = now
        admitted = lines[: int(self._allowance)]
        self._allowance -= len(admitted)
        say = _log.debug if self.muted else _log.info
        for line in admitted:
            say(f"{self.name}: {one_line(_text(line), LONGEST_LINE)}", server=self.name)
        if len(admitted) < len(lines):
            if not self._left_out:
                self.loop.call_later(TELL_AFTER, self._report_left_out)
            self._left_out += len(lines) - len(admitted)

    def _report_left_out(self) -> None:
        _log.warning(f"{self.name}: lines on stderr that were left out: {self._left_out}", server=self.name)
        self._left_out = 0


def what_is_wrong(lines: Sequence[str]) -> Sequence[str]:
    """Pick those of a program's last lines that say why it has ended: the first that names an error, else three.

    A line that stands at the margin comes first: in a traceback the others are code, which names errors as well.
    """
    naming = [line for line in lines if _NAMES_ERROR.search(line)]
    at_margin = [line for line in naming if not line[:1].isspace()]
    return (at_margin or naming)[:1] or lines[-3:]


def _in_no_call(act: Callable[..., object], *args: object) -> None:
    """Act in no call's context: what a server says belongs to whichever call it works for, and that is not known."""
    contextvars.Context().run(act, *args)


def _text(line: bytes | bytearray) -> str:
    return line[: 4 * LONGEST_LINE].decode("utf-8", "replace")


_outputs: dict[str, ServerOutput] = {}


def output_of(server: str) -> ServerOutput | None:
    """The stderr of a server, for its processes and for reading what they wrote; None beyond the bound.

    Raises:
        OSError: there is no descriptor left.
    """
    loop = asyncio.get_running_loop()
    known = _outputs.get(server)
    if known is not None and known.loop is loop:
        return known
    if known is not None:  # of a loop that has ended
        _outputs.pop(server).close()
    elif len(_outputs) >= MAX_SERVERS:
        return None
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    output = _outputs[server] = ServerOutput(server, reading, writing, loop)
    _in_no_call(loop.add_reader, reading, output.read)
    return output
