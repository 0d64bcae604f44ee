"""What one line of a worker means: a report to the supervisor, a record or raw output to the log, or one too many.

Knows reports, records and how many lines a worker may write; nothing of descriptors and turns.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pallas_common.logs.records import parse_record
from pallas_common.logs.setup import get_logger
from pallas_common.protocol.reports import decode_report
from pallas_supervisor.lifecycle.states import label
from pallas_supervisor.logs.attribution import Writer, attributed, raw_record

if TYPE_CHECKING:
    from collections.abc import Callable

    from pallas_common.protocol.reports import Report
    from pallas_supervisor.lifecycle.states import WorkerId
    from pallas_supervisor.logs.router import LogRouter

COUNTED_LENGTH = 1024
"""Bytes of a line for which it counts as one line more."""
LINES_PER_SECOND = 2_000
BURST = 10_000

_log = get_logger("pallas.supervisor.intake")


@dataclass(slots=True, eq=False)
class LineSource:
    """One worker, as far as its lines are concerned."""

    id: WorkerId
    refilled: float
    """When `allowance` was refilled last."""
    pid: int | None = None
    """The process ID, None until it is known. Kept, as lines are taken in still when the process is forgotten."""
    allowance: float = BURST
    """Lines that it may write at once."""
    dropped: int = 0
    """Lines that were dropped since this was last said in the log."""
    unreadable: int = 0


class LineTaker:
    """Takes the lines of all workers.

    Args:
        reported: takes a worker's reports.
        router: takes its records.
        pid: the process ID of a worker, once it is known.
        clock: seconds on a clock that never goes back.
    """

    def __init__(
        self,
        reported: Callable[[WorkerId, Report], None],
        router: LogRouter,
        pid: Callable[[WorkerId], int | None],
        clock: Callable[[], float],
    ) -> None:
        self._reported = reported
        self._router = router
        self._pid = pid
        self._clock = clock
        self.lost: Counter[str] = Counter()
        """Lines of each agent that were dropped, as the log says."""
        self.unreadable: Counter[str] = Counter()
        """Lines of each agent that cannot be read, most of them no reports."""

    def take_report(self, source: LineSource, line: bytes) -> None:
        """Take a line that should be a report."""
        try:
            report = decode_report(line)
        except ValueError as error:
            self.note_unreadable(source, str(error))
            return
        self._reported(source.id, report)

    def take_record(self, source: LineSource, line: bytes) -> None:
        """Take a line that should be a log record."""
        if not line or not self._admit(source, line):
            return
        record = parse_record(line)
        if record is None:
            self._put_raw(source, line)
        else:
            self._router.put(label(source.id.name), attributed(record, self._writer(source), time.time()))

    def take_output(self, source: LineSource, line: bytes) -> None:
        """Take a line that was printed."""
        if line and self._admit(source, line):
            self._put_raw(source, line)

    def note_unreadable(self, source: LineSource, why: str, defect: Exception | None = None) -> None:
        """Count a line that cannot be read; of each worker the first one is logged."""
        name = source.id.name
        self.unreadable[name] += 1
        source.unreadable += 1
        if source.unreadable == 1:
            text = (
                f"{label(name)}: its worker wrote what cannot be read ({why}); more of that is only counted"
            )
            _log.warning(text, exc_info=defect, agent=label(name))

    def refill(self, source: LineSource) -> bool:
        """Whether the worker may have a line more by now."""
        now = self._clock()
        source.allowance = min(BURST, source.allowance + (now - source.refilled) * LINES_PER_SECOND)
        source.refilled = now
        return source.allowance >= 1

    def learn_pid(self, source: LineSource) -> None:
        """Ask for the process ID, while it is known."""
        if source.pid is None:
            source.pid = self._pid(source.id)

    def log_dropped(self, source: LineSource) -> None:
        """Say how many lines were dropped, if any."""
        if source.dropped:
            name, dropped = source.id.name, source.dropped
            self.lost[name] += dropped
            text = f"{label(name)}: {dropped} log lines dropped, more than {LINES_PER_SECOND} a second came"
            _log.warning(text, agent=label(name), dropped=dropped)
            source.dropped = 0

    def _put_raw(self, source: LineSource, line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip("\r")
        self._router.put(label(source.id.name), raw_record(text, self._writer(source), time.time()))

    def _writer(self, source: LineSource) -> Writer:
        self.learn_pid(source)
        return Writer(label(source.id.name), source.id.generation, source.pid)

    def _admit(self, source: LineSource, line: bytes) -> bool:
        """Spend some of the worker's allowance, which refills by the second; a long line counts as several."""
        if not self.refill(source):
            source.dropped += 1
            return False
        source.allowance -= 1 + len(line) // COUNTED_LENGTH
        if source.dropped and source.allowance > LINES_PER_SECOND / 2:
            self.log_dropped(source)
        return True
