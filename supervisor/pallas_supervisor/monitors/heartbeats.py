"""Heartbeats: watches those of every worker and says which serving loop has stopped.

Knows timers and `/proc`; `cpu_silence` decides when a loop has stopped, and the judge which workers are judged at all.
Liveness is not health: what an agent depends on may be down, and its loop still turns.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from pallas_common.logs.setup import get_logger
from pallas_supervisor.monitors.cpu_silence import Silence
from pallas_supervisor.processes.linux import procfs

if TYPE_CHECKING:
    from pallas_supervisor.lifecycle.states import WorkerId

LOOKS = 0.25
"""Part of an interval between two looks: well below what counts as late."""


_log = get_logger("pallas.supervisor.liveness")


class Judge(Protocol):
    """Says which workers are judged, and takes what comes of it."""

    def allowed_misses(self, worker: WorkerId) -> int:
        """Missing heartbeats after which the worker is lost; 0 if it is not to be judged now."""

    def take_in(self, worker: WorkerId) -> None:
        """Read what the worker has reported and has not been read yet."""

    def lost(self, worker: WorkerId, message: str) -> None:
        """The worker's serving loop has stopped."""


class HeartbeatMonitor:
    """The silences of all workers, from their first heartbeat to their end."""

    def __init__(self, judge: Judge) -> None:
        self._loop = asyncio.get_running_loop()
        self._judge = judge
        self._silences: dict[WorkerId, tuple[int, Silence]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def beat(self, worker: WorkerId, pid: int, interval: float) -> None:
        """A heartbeat came, and the next one is due in `interval` seconds."""
        now, usage = self._loop.time(), procfs.cpu_usage(pid)
        if (known := self._silences.get(worker)) is not None:
            known[1].beat(interval, now, usage)
            return
        self._silences[worker] = pid, Silence(interval, now, usage)
        self._look_again()  # this one may be in more of a hurry than the others

    def forget(self, worker: WorkerId) -> None:
        """The worker is gone."""
        self._silences.pop(worker, None)

    def close(self) -> None:
        """Watch no worker any more."""
        self._silences.clear()
        self._look_again()

    def _look_again(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._silences:  # one timer for all: it is waking up that costs
            shortest = min(silence.interval for _, silence in self._silences.values())
            self._timer = self._loop.call_later(LOOKS * shortest, self._look)

    def _look(self) -> None:
        now = self._loop.time()
        try:
            for worker, (pid, silence) in list(self._silences.items()):
                if now >= silence.due:
                    self._take_stock_guarded(worker, pid, silence, now)
        finally:
            self._look_again()

    def _take_stock_guarded(self, worker: WorkerId, pid: int, silence: Silence, now: float) -> None:
        """Whatever one worker brings about, the others are looked at; it is itself from its next heartbeat on."""
        try:
            self._take_stock(worker, pid, silence, now)
        except Exception:  # noqa: BLE001 - it is logged
            self.forget(worker)
            _log.exception(f"{worker.name}: its heartbeats cannot be judged", agent=worker.name)

    def _take_stock(self, worker: WorkerId, pid: int, silence: Silence, now: float) -> None:
        usage = procfs.cpu_usage(pid)
        misses = self._judge.allowed_misses(worker)
        if not misses:
            silence.excuse(now, usage)
            return
        silence.look(now, procfs.state(pid), usage)
        if not silence.is_lost(misses):
            return
        self._judge.take_in(worker)  # a heartbeat may lie in the pipe
        if worker in self._silences and silence.is_lost(misses):
            self.forget(worker)
            self._judge.lost(worker, f"no heartbeat for {misses * silence.interval:g} s")
