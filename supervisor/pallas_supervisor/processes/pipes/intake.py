"""What workers write to their pipes, read and taken by turns: reports, log records and raw output.

A worker is never held up by its log: pipes are read on, whatever comes, and a flood costs dropped lines, which are
counted. Nothing that a worker writes makes anything else fail.

Three pipes each, because they have different rules: reports are never dropped, records and raw output are, and what is
printed is no record, whatever it looks like. The loop is given back after a slice of CPU time, not after a number of
lines, since a line may cost little or much. A worker's end does not wait for an end of its pipes, which a
grandchild may hold open: `drain` takes in what is there at its death, so that its last report comes before `Died`, and
`close` reads on what a pipe can hold at most.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pallas_supervisor.processes.pipes.line_reader import (
    CHUNK,
    LONGEST_LINE,
    LONGEST_OUTPUT,
    PIPE_SIZE,
    WorkerPipe,
)
from pallas_supervisor.processes.pipes.lines import LineSource, LineTaker

if TYPE_CHECKING:
    from collections.abc import Callable

    from pallas_common.protocol.reports import Report
    from pallas_supervisor.lifecycle.states import WorkerId
    from pallas_supervisor.logs.router import LogRouter

SLICE = 0.003
"""Seconds of this thread's CPU time after which others have their turn on the loop. All workers share it."""
PAUSE = 0.003
"""Seconds that others have before the next slice."""
CALM = 0.5
"""Part of the time for which lines may be taken as they come, without a queue: what is saved up is a slice at most."""
LINES_AT_ONCE = 50
"""Lines of one pipe that are taken before another pipe has its turn."""


@dataclass(slots=True, eq=False)
class _Pipe:
    worker: _Worker
    source: WorkerPipe
    take: Callable[[_Worker, bytes], None]
    droppable: bool
    waiting: bool = False
    """In the queue, and not looked at by the loop meanwhile."""


@dataclass(slots=True, eq=False)
class _Worker(LineSource):
    pipes: list[_Pipe] = field(default_factory=list)
    left: int | None = None
    """Bytes that are read yet of a worker that is gone, at most; None while it is there."""


class Intake:
    """All pipes of all workers; the launcher's `WorkerPipes`.

    Args:
        reported: takes a worker's reports.
        router: takes its records.
        pid: the process ID of a worker, once it is known.
        clock: seconds on a clock that never goes back; the loop's if None.
    """

    def __init__(
        self,
        reported: Callable[[WorkerId, Report], None],
        router: LogRouter,
        pid: Callable[[WorkerId], int | None] = lambda _worker_id: None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._clock = clock or self._loop.time
        self._secrets = router.secrets
        self._taker = LineTaker(reported, router, pid, self._clock)
        self.lost = self._taker.lost
        """Lines of each agent that were dropped, as the log says."""
        self.unreadable = self._taker.unreadable
        """Lines of each agent that cannot be read, most of them no reports."""
        self._workers: dict[WorkerId, _Worker] = {}
        self._queue: deque[_Pipe] = deque()
        """Those that have lines to be taken."""
        self._slice: asyncio.Handle | None = None
        self._credit = SLICE
        """Seconds for which lines may be taken as they come."""
        self._credited = 0.0
        self._idle = asyncio.Event()
        self._idle.set()

    def open(self, worker_id: WorkerId) -> tuple[int, int, int]:
        """Make the pipes; the write ends for report, records and output, which the caller closes."""
        self.close(worker_id)
        worker = self._workers[worker_id] = _Worker(worker_id, self._clock())
        theirs: list[int] = []
        try:
            # One by one: what was opened must be known.
            theirs.append(self._open(worker, self._taker.take_report, LONGEST_LINE, droppable=False))
            theirs.append(self._open(worker, self._taker.take_record, LONGEST_LINE, droppable=True))
            theirs.append(self._open(worker, self._taker.take_output, LONGEST_OUTPUT, droppable=True))
        except OSError:
            for descriptor in theirs:
                os.close(descriptor)
            self.close(worker_id)
            raise
        report, records, output = theirs
        return report, records, output

    def _open(
        self, worker: _Worker, take: Callable[[_Worker, bytes], None], longest: int, *, droppable: bool
    ) -> int:
        pipe = _Pipe(worker, WorkerPipe(longest, self._secrets), take, droppable)
        worker.pipes.append(pipe)
        self._listen(pipe)
        return pipe.source.theirs

    def drain(self, worker_id: WorkerId) -> None:
        """Take in what has been written so far; of a flood the beginning, and the rest when its turn comes."""
        if (worker := self._workers.get(worker_id)) is not None:
            self._taker.learn_pid(worker)
            end = time.thread_time() + SLICE
            for pipe in worker.pipes:  # reports first
                self._drain(pipe, end)
                if pipe.source.lines:
                    self._enqueue(pipe)

    def close(self, worker_id: WorkerId) -> None:
        """Take in the rest and close the pipes; what was an unfinished line becomes one."""
        if (worker := self._workers.pop(worker_id, None)) is None:
            return
        worker.left = PIPE_SIZE
        end = time.thread_time() + SLICE
        for pipe in worker.pipes.copy():
            self._ignore(pipe)
            if pipe.waiting:
                pipe.waiting = False
                self._queue.remove(pipe)
            if self._drain(pipe, end):
                self._close(pipe)
            else:
                self._enqueue(pipe)
        if not worker.pipes:  # there were none, or not all
            self._taker.log_dropped(worker)

    async def finish(self) -> None:
        """Return once all that closed pipes held has been taken in."""
        await self._idle.wait()

    # --- turns --------------------------------------------------------------------------------------------

    def _listen(self, pipe: _Pipe) -> None:
        if not pipe.source.ended:
            self._loop.add_reader(pipe.source.descriptor, self._readable, pipe)

    def _ignore(self, pipe: _Pipe) -> None:
        self._loop.remove_reader(pipe.source.descriptor)

    def _readable(self, pipe: _Pipe) -> None:
        self._read(pipe)
        if pipe.source.lines and not self._queue:
            self._take_at_once(pipe)
        if pipe.source.lines:
            self._enqueue(pipe)
        elif pipe.source.ended:
            self._ignore(pipe)

    def _take_at_once(self, pipe: _Pipe) -> None:
        """Take lines while all is calm: a queue and a slice cost twice of what a heartbeat does."""
        now, begun = self._clock(), time.thread_time()
        self._credit = min(SLICE, self._credit + (now - self._credited) * CALM)
        self._credited = now
        if self._credit > 0:
            self._take(pipe, LINES_AT_ONCE, begun + self._credit)
            self._credit -= time.thread_time() - begun

    def _enqueue(self, pipe: _Pipe) -> None:
        """Have the pipe's lines taken soon; what comes meanwhile waits in the pipe."""
        if not pipe.waiting:
            pipe.waiting = True
            self._ignore(pipe)
            self._queue.append(pipe)
            self._idle.clear()
        if self._slice is None:
            self._slice = self._loop.call_soon(self._work)

    def _work(self) -> None:
        """Take lines for a moment, some of each pipe by turns, and come again for the rest."""
        try:
            self._take_turns(time.thread_time() + SLICE)
        finally:  # whatever one pipe has raised, the others' lines come in
            self._credit, self._credited = 0.0, self._clock()
            self._slice = self._loop.call_later(PAUSE, self._work) if self._queue else None
            if not self._queue:
                self._idle.set()

    def _take_turns(self, end: float) -> None:
        while self._queue and time.thread_time() < end:
            pipe = self._queue.popleft()
            pipe.waiting = False
            self._take(pipe, LINES_AT_ONCE, end)
            gone = pipe.worker.left is not None
            if pipe.source.lines or (gone and not self._drain(pipe, end)):
                pipe.waiting = True
                self._queue.append(pipe)
            elif gone:
                self._close(pipe)
            else:
                self._listen(pipe)

    def _drain(self, pipe: _Pipe, end: float) -> bool:
        """Take lines and read on until `end` on this thread's clock; whether there is nothing more."""
        while True:
            self._take(pipe, len(pipe.source.lines), end)
            if pipe.source.lines or time.thread_time() >= end:
                return False
            if not self._read(pipe):
                return True

    def _close(self, pipe: _Pipe) -> None:
        worker = pipe.worker
        pipe.source.end_line()
        self._take(pipe, len(pipe.source.lines), float("inf"))
        pipe.source.close()
        worker.pipes.remove(pipe)
        if not worker.pipes:
            self._taker.log_dropped(worker)

    def _take(self, pipe: _Pipe, most: int, end: float) -> None:
        lines = pipe.source.lines
        while lines and most > 0:
            self._take_line(pipe, lines.popleft())
            most -= 1
            if time.thread_time() >= end:
                break
        if lines and pipe.droppable and not self._taker.refill(pipe.worker):
            pipe.worker.dropped += len(lines)
            lines.clear()

    def _read(self, pipe: _Pipe) -> bool:
        """Read one chunk; whether there was anything."""
        worker = pipe.worker
        if worker.left is not None:
            if worker.left <= 0:  # what still writes is no worker
                return False
            worker.left -= CHUNK
        if pipe.droppable and not self._taker.refill(worker):
            read, lost = pipe.source.skip()
            worker.dropped += lost
            return read
        return pipe.source.read()

    def _take_line(self, pipe: _Pipe, line: bytes) -> None:
        """Take one line; whatever it brings about, the next one is taken."""
        try:
            pipe.take(pipe.worker, line)
        except Exception as error:  # noqa: BLE001 - it is logged
            self._taker.note_unreadable(pipe.worker, "it brought about a defect", error)
