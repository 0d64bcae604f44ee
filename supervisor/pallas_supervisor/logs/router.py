"""Where the log lines of all processes come together: kept in bounded rings, passed to the writer and to subscribers.

Knows the one log format; nothing of pipes or files.
"""

from __future__ import annotations

import logging
import threading
import time
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from pallas_common.logs.levels import level_number
from pallas_common.logs.records import record_line
from pallas_common.secrets.values import KnownSecrets
from pallas_common.times import timestamp
from pallas_supervisor.events.ring import Ring
from pallas_supervisor.logs.subscribers import Tail

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection


RING_LENGTH = 2_000
RING_BYTES = 2 * 1024 * 1024
"""Lines, and bytes of them, kept per agent for `pallasctl logs`: whichever bound is reached first."""

IDLE_LENGTH = 20
IDLE_BYTES = 8 * 1024
"""The same of an agent that is idle, of which there may be a thousand; the log file has the rest."""

SUPERVISOR = ""
"""The ring of the supervisor's own records."""


class Line(NamedTuple):
    """One record: `time` is its own RFC 3339 UTC time, which sorts as text; `text` its JSON; `level` a number."""

    time: str
    text: bytes
    level: int = logging.INFO


def _lost_record(lost: int) -> bytes:
    """The line that stands for those that a subscriber was too slow for."""
    record = {
        "time": timestamp(time.time()),
        "level": "WARNING",
        "logger": "pallas.supervisor.hub",
        "message": f"{lost} lines left out here: the reader was too slow",
    }
    return record_line(record).rstrip(b"\n")


class LogRouter:
    """Takes records of all processes. Runs on the loop's thread."""

    def __init__(
        self,
        write: Callable[[bytes], None],
        secrets: KnownSecrets | None = None,
        lost: Callable[[], int] = lambda: 0,
    ) -> None:
        """`secrets` are in no record that `put` takes in; `lost` says how many lines `write` has lost so far."""
        self._write = write
        self._lost = lost
        self.secrets = secrets if secrets is not None else KnownSecrets()
        self._rings: dict[str, Ring[Line]] = {}
        self.observers: list[Callable[[str, Line], None]] = []
        """Called with each line and whose it is; they must neither wait nor fail."""
        self.tail = Tail(_lost_record)

    @property
    def lost(self) -> int:
        """Lines that were taken in and reached no log."""
        return self._lost()

    def put(self, agent: str, record: dict[str, object]) -> None:
        """Take in one record, a dictionary in the log format; `agent` is `SUPERVISOR` for its own."""
        level = level_number(record.get("level"))
        text = record_line(record, self.secrets).rstrip(b"\n")
        self.put_line(agent, Line(str(record.get("time", "")), text, level))

    def put_line(self, agent: str, line: Line) -> None:
        """Take in one finished record."""
        ring = self._rings.get(agent)
        if ring is None:
            ring = self._rings[agent] = Ring(RING_LENGTH, RING_BYTES)
        ring.append(line, len(line.text))
        self._write(line.text)
        self.tail.append(agent, line.text, line.level)
        for observer in self.observers:
            observer(agent, line)

    def newest(
        self, agents: Collection[str], count: int, since: str = "", level: int = logging.NOTSET
    ) -> list[bytes]:
        """The last `count` lines of these agents (all, and the supervisor's, if empty), oldest first.

        Args:
            since: an RFC 3339 UTC time; older lines are left out.
            level: lines below this level do not count.
        """
        wanted = [ring for agent, ring in self._rings.items() if not agents or agent in agents]
        newest = (
            line
            for ring in wanted
            for line in islice((line for line in reversed(ring) if line.level >= level), count)
        )
        lines = sorted((line for line in newest if line.time >= since), key=lambda line: line.time)
        return [line.text for line in lines[-count:]] if count else []

    def idle(self, agent: str) -> None:
        """Keep only the last lines of an agent that has no process."""
        if (ring := self._rings.get(agent)) is not None:
            ring.trim(IDLE_LENGTH, IDLE_BYTES)

    def forget(self, agent: str) -> None:
        """Drop the lines of an agent that has been removed."""
        self._rings.pop(agent, None)


class LogRouterHandler(logging.Handler):
    """Puts the supervisor's own records into the router, from whatever thread they come."""

    def __init__(self, router: LogRouter, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._router = router
        self._loop = loop
        self._home = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        """Format the record and hand it over."""
        try:
            text = self.format(record).encode("utf-8", "replace")
            line = Line(timestamp(record.created), text, level_number(record.levelname))
            agent = str(getattr(record, "agent", SUPERVISOR))
            if threading.get_ident() == self._home:
                self._router.put_line(agent, line)
            else:
                self._loop.call_soon_threadsafe(self._router.put_line, agent, line)
        except Exception:  # noqa: BLE001 - logging's contract: a handler never raises into the program
            self.handleError(record)
