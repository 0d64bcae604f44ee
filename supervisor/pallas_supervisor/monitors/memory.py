"""How much memory workers take against their limits, looked at every few seconds. Decides, and acts on nothing.

Knows `/proc` and control groups, through `procfs` and the launcher; what follows from a verdict, the judge decides.
"""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from pallas_supervisor.processes.linux import procfs

if TYPE_CHECKING:
    from pallas_supervisor.lifecycle.states import WorkerId
    from pallas_supervisor.processes.launcher import Launcher
    from pallas_supervisor.processes.worker import Worker

INTERVAL = 2.0
"""Seconds between looks."""

SOFT = 0.8
"""Part of the limit from which on a worker is replaced gracefully."""


class Verdict(StrEnum):
    """What a look says."""

    FINE = "fine"
    GROWN = "grown"
    """It has come to take more than the soft limit: said once."""
    UNDERSIZED = "cramped"
    """It took more than the soft limit when it became ready, so that another one would, too: said once."""
    OVER = "over"
    """It takes more than its limit."""


class MemoryUse:
    """One worker's memory against its limit, in bytes. Pure."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._at_first = 0
        self._has_warned = False

    def settle(self, used: int) -> None:
        """It is ready, and takes so much before it has had a call: another one would, too."""
        self.used = self._at_first = used

    def judge(self, used: int, *, serving: bool) -> Verdict:
        """What to think of a worker that takes so much; one that does not serve yet is only kept below its limit."""
        self.used = used
        if used >= self.limit:
            return Verdict.OVER
        if not serving or self._has_warned:
            return Verdict.FINE
        soft = self.limit * SOFT
        if used < soft:
            return Verdict.FINE
        self._has_warned = True
        return Verdict.UNDERSIZED if self._at_first >= soft else Verdict.GROWN


class Judge(Protocol):
    """Says which workers serve, and takes verdicts."""

    def is_serving(self, worker: WorkerId) -> bool:
        """Whether the worker is ready and serves: not one that starts or drains beside it."""

    def judged(self, worker: WorkerId, verdict: Verdict, use: MemoryUse) -> None:
        """Something has to be done about the worker; never called with `FINE`."""


class MemoryMonitor:
    """The memory of all workers that have a limit."""

    def __init__(self, launcher: Launcher, judge: Judge) -> None:
        self._loop = asyncio.get_running_loop()
        self._launcher = launcher
        self._judge = judge
        self._uses: dict[WorkerId, MemoryUse] = {}
        self._timer = self._loop.call_later(INTERVAL, self._look_again)

    def settle(self, worker_id: WorkerId) -> None:
        """The worker says that it is ready: what it takes now, it takes from the start.

        The next look would be too late, for a call may have come before it.
        """
        worker = self._launcher.worker(worker_id)
        if worker is not None and (measured := self._measure(worker_id, worker)) is not None:
            use, used = measured
            use.settle(used)

    def forget(self, worker: WorkerId) -> None:
        """The worker is gone."""
        self._uses.pop(worker, None)

    @property
    def newest(self) -> dict[str, tuple[int, int]]:
        """Bytes taken and allowed, of each agent with a limit; of two of its workers the one that takes more."""
        found: dict[str, tuple[int, int]] = {}
        for worker_id, use in self._uses.copy().items():
            found[worker_id.name] = max(found.get(worker_id.name, (0, 0)), (use.used, use.limit))
        return found

    def close(self) -> None:
        """Look no more."""
        self._timer.cancel()

    def _look_again(self) -> None:
        self._timer = self._loop.call_later(INTERVAL, self._look_again)
        self.look()

    def look(self) -> None:
        """Look at every worker that has a limit and has not been killed for it yet."""
        for worker_id, worker in self._launcher.workers.items():
            if worker.reason is not None or (measured := self._measure(worker_id, worker)) is None:
                continue
            use, used = measured
            verdict = use.judge(used, serving=self._judge.is_serving(worker_id))
            if verdict is not Verdict.FINE:
                self._judge.judged(worker_id, verdict, use)

    def _measure(self, worker_id: WorkerId, worker: Worker) -> tuple[MemoryUse, int] | None:
        limit = worker.launch_info.memory_limit
        if limit is None or (used := _used(worker)) is None:
            return None
        return self._uses.setdefault(worker_id, MemoryUse(limit)), used


def _used(worker: Worker) -> int | None:
    """What the worker takes, or what its group does where that is accounted for; None if it has ended."""
    own = procfs.memory(worker.pid)
    if own is None or worker.launch_info.group is None:
        return own
    return max(own, worker.launch_info.group.memory())
