"""The story of the agents in a terminal: what happens goes in, lines are written by a thread of their own.

Thin: `story` decides what is said and `layout` how it looks. A terminal that is not read costs lines, never the
supervisor's time; whatever is wrong with a line costs the terminal, never the caller.
"""

from __future__ import annotations

import logging
import os
import time
from typing import TYPE_CHECKING

from pallas_common.logs.records import parse_record
from pallas_common.logs.setup import get_logger
from pallas_common.protocol.gateway import GATEWAY
from pallas_supervisor.logs.background_writer import BackgroundWriter
from pallas_supervisor.logs.console.layout import LONGEST_NAME, Layout
from pallas_supervisor.logs.console.plain import CLOSE_TIMEOUT, QUEUE_BYTES
from pallas_supervisor.logs.console.story import SELF, Story
from pallas_supervisor.logs.router import SUPERVISOR, Line

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Mapping
    from typing import TextIO

    from pallas_supervisor.logs.console.lines import AgentView, DeploymentView, Say
    from pallas_supervisor.logs.router import LogRouter

LAST_LINES = 5
"""Lines that an agent has printed, shown when it fails."""
_LOOKED_AT = 50
"""Records among which these are looked for."""
_FALLBACK_WIDTH = 80

_log = get_logger("pallas.supervisor.console")


class Screen:
    """Writes what is said to a terminal, as wide as that is.

    Args:
        stream: the terminal.
        names: the agents, for the width of their column.
        quiet: whether problems alone are shown.
        clock: the time of day, in seconds since the epoch.
    """

    def __init__(
        self,
        stream: TextIO,
        names: Iterable[str],
        environ: Mapping[str, str],
        *,
        quiet: bool,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._stream: TextIO | None = stream
        self._colours = stream.isatty() and colours_wanted(environ)
        self._names = min(max([len(SELF), *map(len, names)]), LONGEST_NAME)
        self._quiet = quiet
        self._clock = clock
        self._writer = BackgroundWriter("terminal", self._write, limit=QUEUE_BYTES)

    def show(self, said: Iterable[Say], *, timed: bool) -> None:
        """Hand over what is said; `timed` says whether the time of day is put before it."""
        shown = [say for say in said if say.problem or not self._quiet]
        if not shown:
            return
        clock = time.strftime("%H:%M:%S", time.localtime(self._clock())) if timed else ""
        layout = Layout(width_of(self._stream), self._colours, self._names)
        for say in shown:
            self._writer.put(layout.draw(say, clock if say.about else "").encode("utf-8", "replace"))

    def over(self) -> None:
        """Begin at the left again: the terminal has just written `^C` there."""
        if not self._quiet:
            self._writer.put(b"\r")

    def close(self) -> None:
        """Write what waits, for a moment at most."""
        if dropped := self._writer.dropped:
            self._writer.put(f"{dropped} lines are left out here: the terminal was too slow\n".encode())
        self._writer.close()
        self._writer.join(CLOSE_TIMEOUT)

    def _write(self, line: bytes) -> None:
        if self._stream is None:
            return
        try:
            self._stream.write(line.decode())
            self._stream.flush()
        except (OSError, ValueError):
            self._stream = None  # the terminal has gone


class Terminal:
    """Feeds the story with what the supervisor's parts observe. Runs on the loop's thread.

    Args:
        views: the agents as they are now.
        shutting_down: whether all agents are being stopped.
    """

    def __init__(
        self,
        screen: Screen,
        log_router: LogRouter,
        views: Callable[[], Iterable[AgentView]],
        shutting_down: Callable[[], bool],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._screen = screen
        self._router = log_router
        self._views = views
        self._shutting_down = shutting_down
        self._loop = loop
        self._story = Story(self._output)
        self._timer: asyncio.TimerHandle | None = None
        self._broken = False
        self._timed = False
        """Whether lines have the time of day: once the start is over."""

    def open(self, deployment: DeploymentView) -> None:
        """Say what is deployed, and follow it from now on."""
        self._show(self._story.open(deployment, self._loop.time()))
        for text in self._router.newest([], _LOOKED_AT, level=logging.WARNING):
            self._attempt(self._take, SUPERVISOR, Line("", text, logging.WARNING))
        self._router.observers.append(self._line)

    def changed(self) -> None:
        """Something may be different with some agent."""
        self._attempt(self._look)

    def close(self) -> None:
        """The last words."""
        if self._timer is not None:
            self._timer.cancel()
        if self._line in self._router.observers:
            self._router.observers.remove(self._line)
        self._show(self._story.stopped(self._loop.time()))
        self._screen.close()

    def _look(self) -> None:
        now = self._loop.time()
        if self._shutting_down() and not self._story.stopping:
            self._screen.over()
            self._show(self._story.stop(now))
        self._show(self._story.look(self._views(), now))
        self._set_timer()

    def _line(self, agent: str, line: Line) -> None:
        if line.level >= logging.WARNING or agent in (SUPERVISOR, GATEWAY):
            self._attempt(self._take, agent, line)

    def _take(self, agent: str, line: Line) -> None:
        record = parse_record(line.text)
        if record is not None:
            self._show(self._story.record(agent, record, line.level, self._loop.time()))
            self._set_timer()

    def _tick(self) -> None:
        self._timer = None
        self._show(self._story.tick(self._loop.time()))
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        due = self._story.due
        self._timer = None if due is None else self._loop.call_at(due, self._attempt, self._tick)

    def _show(self, said: list[Say]) -> None:
        if said:
            self._screen.show(said, timed=self._timed)
        self._timed = self._story.summarised and not self._story.stopping

    def _output(self, name: str) -> list[str]:
        return printed(self._router.newest([name], _LOOKED_AT))

    def _attempt[*Arguments](self, do: Callable[[*Arguments], None], *arguments: *Arguments) -> None:
        if self._broken:
            return
        try:
            do(*arguments)
        except Exception:  # noqa: BLE001 - whatever it is, it concerns nobody else
            self._broken = True
            _log.exception("the terminal shows nothing more: a defect; the log goes on")


def printed(lines: Iterable[bytes]) -> list[str]:
    """The last lines among these that an agent itself has printed."""
    records = [record for line in lines if (record := parse_record(line)) is not None]
    texts = [
        text
        for record in records
        if record.get("logger") == "pallas.output"
        for text in str(record.get("message", "")).splitlines()
        if text.strip()
    ]
    return texts[-LAST_LINES:]


def colours_wanted(environ: Mapping[str, str]) -> bool:
    """Whether a terminal's user has not declined colours (no-color.org), and it has any."""
    return not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def width_of(stream: TextIO | None) -> int:
    """Columns of the terminal, as it is now."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or _FALLBACK_WIDTH if stream else _FALLBACK_WIDTH
    except (OSError, ValueError):
        return _FALLBACK_WIDTH
