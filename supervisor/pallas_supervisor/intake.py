"""The reading ends of the workers' pipes: reports to the supervisor, records and raw output to the log hub.

Knows descriptors and lines. Reads on whatever comes, bounded per worker and second: a worker is never held up by its
log, and a flood costs dropped lines, which are counted. Takes a few lines at a time, so that a flood does not hold up
the loop either.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections import Counter, deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pallas_registry.logs import get_logger, parse_record
from pallas_registry.protocol import decode_report

if TYPE_CHECKING:
    from collections.abc import Callable

    from pallas_registry.protocol import Report
    from pallas_supervisor.hub import LogHub

CHUNK = 64 * 1024
LONGEST_LINE = 64 * 1024
PIPE_SIZE = 1024 * 1024
COUNTED_LENGTH = 1024
"""Bytes of a line for which it counts as one line more."""
LINES_PER_SECOND = 2_000
BURST = 10_000
DRAIN_CHUNKS = 32
LINES_AT_ONCE = 200
"""Lines that are taken in before others have their turn on the loop."""

_log = get_logger("pallas.supervisor.intake")


@dataclass(slots=True)
class _Worker:
    name: str
    generation: int
    pipes: list[_Pipe] = field(default_factory=list)
    allowance: float = BURST
    refilled: float = 0.0
    dropped: int = 0


@dataclass(slots=True)
class _Pipe:
    worker: _Worker
    descriptor: int
    take: Callable[[_Worker, bytes], None]
    droppable: bool
    rest: bytearray = field(default_factory=bytearray)
    lines: deque[bytes] = field(default_factory=deque)
    """Whole lines that have been read and not yet taken."""
    turn: asyncio.Handle | None = None
    """The next look at `lines`, if there are some."""


class Intake:
    """All pipes of all workers; the launcher's `WorkerPipes`.

    Args:
        reported: takes a worker's reports.
        hub: takes its records.
    """

    def __init__(self, reported: Callable[[str, int, Report], None], hub: LogHub) -> None:
        self._loop = asyncio.get_running_loop()
        self._reported = reported
        self._hub = hub
        self.lost: Counter[str] = Counter()
        """Lines of each agent that were dropped, and told."""
        self._workers: dict[tuple[str, int], _Worker] = {}

    def open(self, name: str, generation: int) -> tuple[int, int, int]:
        """Make the pipes; the write ends for report, records and output, which the caller closes."""
        self.close(name, generation)
        worker = self._workers[name, generation] = _Worker(name, generation, refilled=self._loop.time())
        theirs: list[int] = []
        try:
            # One by one: what was opened must be known.
            theirs.append(self._open(worker, self._take_report, droppable=False))
            theirs.append(self._open(worker, self._take_record, droppable=True))
            theirs.append(self._open(worker, self._take_output, droppable=True))
        except OSError:
            for descriptor in theirs:
                os.close(descriptor)
            self.close(name, generation)
            raise
        report, records, output = theirs
        return report, records, output

    def _open(self, worker: _Worker, take: Callable[[_Worker, bytes], None], *, droppable: bool) -> int:
        ours, theirs = os.pipe()
        os.set_blocking(ours, False)
        with contextlib.suppress(PermissionError):  # above the user's limit for pipes: the default size does
            fcntl.fcntl(ours, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
        pipe = _Pipe(worker, ours, take, droppable)
        worker.pipes.append(pipe)
        self._loop.add_reader(ours, self._readable, pipe)
        return theirs

    def drain(self, name: str, generation: int) -> None:
        """Take in what has been written so far."""
        if (worker := self._workers.get((name, generation))) is None:
            return
        for pipe in worker.pipes:
            for _ in range(DRAIN_CHUNKS):
                self._take(pipe, len(pipe.lines))
                if not self._read(pipe):
                    break

    def close(self, name: str, generation: int) -> None:
        """Close the pipes; what was an unfinished line becomes one."""
        if (worker := self._workers.pop((name, generation), None)) is None:
            return
        for pipe in worker.pipes:
            self._take(pipe, len(pipe.lines))
            if pipe.rest:
                pipe.take(worker, bytes(pipe.rest))
            if pipe.turn is not None:
                pipe.turn.cancel()
            self._loop.remove_reader(pipe.descriptor)
            os.close(pipe.descriptor)
        self._tell_dropped(worker)

    def _readable(self, pipe: _Pipe) -> None:
        if not pipe.lines:  # else they come first, and the pipe fills up meanwhile
            self._read(pipe)
        if pipe.turn is None:
            self._take_some(pipe)

    def _take_some(self, pipe: _Pipe) -> None:
        pipe.turn = None
        self._take(pipe, LINES_AT_ONCE)
        if pipe.lines:
            pipe.turn = self._loop.call_soon(self._take_some, pipe)

    def _take(self, pipe: _Pipe, most: int) -> None:
        while pipe.lines and most > 0:
            pipe.take(pipe.worker, pipe.lines.popleft())
            most -= 1
        if pipe.lines and pipe.droppable and not self._refill(pipe.worker):
            pipe.worker.dropped += len(pipe.lines)
            pipe.lines.clear()

    def _read(self, pipe: _Pipe) -> bool:
        """Read one chunk; whether there was anything."""
        try:
            data = os.read(pipe.descriptor, CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self._loop.remove_reader(pipe.descriptor)
            return False
        if pipe.droppable and not self._refill(pipe.worker):
            self._drop(pipe, data)
            return True
        pipe.rest += data
        *lines, rest = pipe.rest.split(b"\n")
        if len(rest) > LONGEST_LINE:
            lines.append(rest)
            rest = bytearray()
        pipe.rest = rest
        pipe.lines.extend(map(bytes, lines))
        return True

    @staticmethod
    def _drop(pipe: _Pipe, data: bytes) -> None:
        """Count the lines in `data` without looking at them, and keep the beginning of the one that is not ended."""
        ended, feed, rest = data.rpartition(b"\n")
        if feed:
            pipe.worker.dropped += ended.count(b"\n") + 1
            pipe.rest = bytearray()
        pipe.rest += rest
        if len(pipe.rest) > LONGEST_LINE:
            pipe.worker.dropped += 1
            pipe.rest = bytearray()

    def _take_report(self, worker: _Worker, line: bytes) -> None:
        try:
            report = decode_report(line)
        except ValueError as error:
            if self._admit(worker, line):
                _log.warning("%s: %s", worker.name, error, extra={"agent": worker.name})
            return
        self._reported(worker.name, worker.generation, report)

    def _take_record(self, worker: _Worker, line: bytes) -> None:
        if not line or not self._admit(worker, line):
            return
        record = parse_record(line)
        if record is None:
            self._put_raw(worker, line)
        else:
            self._hub.put(worker.name, record)

    def _take_output(self, worker: _Worker, line: bytes) -> None:
        if line and self._admit(worker, line):
            self._put_raw(worker, line)

    def _put_raw(self, worker: _Worker, line: bytes) -> None:
        self._hub.put(
            worker.name,
            {
                "time": datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
                "level": "INFO",
                "logger": "pallas.output",
                "message": line.decode("utf-8", "replace").rstrip("\r"),
                "agent": worker.name,
                "generation": worker.generation,
            },
        )

    def _admit(self, worker: _Worker, line: bytes) -> bool:
        """Spend some of the worker's allowance, which refills by the second; a long line counts as several."""
        if not self._refill(worker):
            worker.dropped += 1
            return False
        worker.allowance -= 1 + len(line) // COUNTED_LENGTH
        if worker.dropped and worker.allowance > LINES_PER_SECOND / 2:
            self._tell_dropped(worker)
        return True

    def _refill(self, worker: _Worker) -> bool:
        """Whether the worker may have a line more by now."""
        now = self._loop.time()
        worker.allowance = min(BURST, worker.allowance + (now - worker.refilled) * LINES_PER_SECOND)
        worker.refilled = now
        return worker.allowance >= 1

    def _tell_dropped(self, worker: _Worker) -> None:
        if worker.dropped:
            self.lost[worker.name] += worker.dropped
            _log.warning(
                "%s: %d log lines dropped, more than %d a second came",
                worker.name,
                worker.dropped,
                LINES_PER_SECOND,
                extra={"agent": worker.name, "dropped": worker.dropped},
            )
            worker.dropped = 0
