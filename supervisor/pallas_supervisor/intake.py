"""The reading ends of the workers' pipes: reports to the supervisor, records and raw output to the log hub.

Knows descriptors and lines. Reads on whatever comes, bounded per worker and second: a worker is never held up by its
log, and a flood costs dropped lines, which are counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pallas_registry.logs import parse_record
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

_log = logging.getLogger("pallas.supervisor.intake")


@dataclass(slots=True)
class _Pipe:
    descriptor: int
    take: Callable[[bytes], None]
    rest: bytearray = field(default_factory=bytearray)


@dataclass(slots=True)
class _Worker:
    name: str
    generation: int
    pipes: list[_Pipe] = field(default_factory=list)
    allowance: float = BURST
    refilled: float = 0.0
    dropped: int = 0


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
        self._workers: dict[tuple[str, int], _Worker] = {}

    def open(self, name: str, generation: int) -> tuple[int, int, int]:
        """Make the pipes; the write ends for report, records and output, which the caller closes."""
        self.close(name, generation)
        worker = self._workers[name, generation] = _Worker(name, generation, refilled=self._loop.time())
        theirs: list[int] = []
        try:
            for take in (self._take_report, self._take_record, self._take_output):
                theirs.append(self._open(worker, take))  # noqa: PERF401 - what was opened must be known
        except OSError:
            for descriptor in theirs:
                os.close(descriptor)
            self.close(name, generation)
            raise
        report, records, output = theirs
        return report, records, output

    def _open(self, worker: _Worker, take: Callable[[_Worker, bytes], None]) -> int:
        ours, theirs = os.pipe()
        os.set_blocking(ours, False)
        with contextlib.suppress(PermissionError):  # above the user's limit for pipes: the default size does
            fcntl.fcntl(ours, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
        pipe = _Pipe(ours, lambda line: take(worker, line))
        worker.pipes.append(pipe)
        self._loop.add_reader(ours, self._read, pipe)
        return theirs

    def drain(self, name: str, generation: int) -> None:
        """Take in what has been written so far."""
        if (worker := self._workers.get((name, generation))) is None:
            return
        for pipe in worker.pipes:
            for _ in range(DRAIN_CHUNKS):
                if not self._read(pipe):
                    break

    def close(self, name: str, generation: int) -> None:
        """Close the pipes; what was an unfinished line becomes one."""
        if (worker := self._workers.pop((name, generation), None)) is None:
            return
        for pipe in worker.pipes:
            if pipe.rest:
                pipe.take(bytes(pipe.rest))
            self._loop.remove_reader(pipe.descriptor)
            os.close(pipe.descriptor)
        self._tell_dropped(worker)

    def _read(self, pipe: _Pipe) -> bool:
        """Read one chunk; whether there was anything."""
        try:
            data = os.read(pipe.descriptor, CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self._loop.remove_reader(pipe.descriptor)
            return False
        pipe.rest += data
        *lines, rest = pipe.rest.split(b"\n")
        if len(rest) > LONGEST_LINE:
            lines.append(rest)
            rest = bytearray()
        pipe.rest = rest
        for line in lines:
            pipe.take(bytes(line))
        return True

    def _take_report(self, worker: _Worker, line: bytes) -> None:
        try:
            report = decode_report(line)
        except ValueError as error:
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
        now = self._loop.time()
        worker.allowance = min(BURST, worker.allowance + (now - worker.refilled) * LINES_PER_SECOND)
        worker.refilled = now
        if worker.allowance < 1:
            worker.dropped += 1
            return False
        worker.allowance -= 1 + len(line) // COUNTED_LENGTH
        if worker.dropped and worker.allowance > LINES_PER_SECOND / 2:
            self._tell_dropped(worker)
        return True

    def _tell_dropped(self, worker: _Worker) -> None:
        if worker.dropped:
            _log.warning(
                "%s: %d log lines dropped, more than %d a second came",
                worker.name,
                worker.dropped,
                LINES_PER_SECOND,
                extra={"agent": worker.name, "dropped": worker.dropped},
            )
            worker.dropped = 0
