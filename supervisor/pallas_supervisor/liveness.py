"""Heartbeats: watches those of every worker and says which serving loop has stopped.

Knows timers and `/proc`; `pulse` decides, and who is judged at all is asked for. Liveness is not health: what an agent
depends on may be down, and its loop still turns.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from pallas_supervisor import procfs
from pallas_supervisor.pulse import Pulse

if TYPE_CHECKING:
    from pallas_supervisor.children import Owner


class Judge(Protocol):
    """Who is judged, and what becomes of it."""

    def allowed_misses(self, worker: Owner) -> int:
        """Missing heartbeats after which the worker is lost; 0 if it is not to be judged now."""

    def take_in(self, worker: Owner) -> None:
        """Read what the worker has reported and nobody has read yet."""

    def lost(self, worker: Owner, message: str) -> None:
        """The worker's serving loop has stopped."""


class Liveness:
    """The pulses of all workers, from their first heartbeat to their end."""

    def __init__(self, judge: Judge) -> None:
        self._loop = asyncio.get_running_loop()
        self._judge = judge
        self._pulses: dict[Owner, tuple[int, Pulse]] = {}
        self._timers: dict[Owner, asyncio.TimerHandle] = {}

    def beat(self, worker: Owner, pid: int, interval: float) -> None:
        """A heartbeat came, and the next one is due in `interval` seconds."""
        now, usage = self._loop.time(), procfs.cpu_usage(pid)
        if (known := self._pulses.get(worker)) is not None:
            known[1].beat(interval, now, usage)
            return  # the timer runs, and sees for itself how much later it is due
        pulse = Pulse(interval, now, usage)
        self._pulses[worker] = pid, pulse
        self._timers[worker] = self._loop.call_at(pulse.due, self._look, worker)

    def forget(self, worker: Owner) -> None:
        """The worker is gone."""
        if self._pulses.pop(worker, None) is not None:
            self._timers.pop(worker).cancel()

    def close(self) -> None:
        """Watch nobody any more."""
        for worker in list(self._pulses):
            self.forget(worker)

    def _look(self, worker: Owner) -> None:
        pid, pulse = self._pulses[worker]
        now = self._loop.time()
        if now >= pulse.due:
            self._take_stock(worker, pid, pulse, now)
        if worker in self._pulses:
            self._timers[worker] = self._loop.call_at(pulse.due, self._look, worker)

    def _take_stock(self, worker: Owner, pid: int, pulse: Pulse, now: float) -> None:
        usage = procfs.cpu_usage(pid)
        misses = self._judge.allowed_misses(worker)
        if not misses:
            pulse.excuse(now, usage)
            return
        pulse.look(now, procfs.state(pid), usage)
        if not pulse.is_lost(misses):
            return
        self._judge.take_in(worker)  # a heartbeat may lie in the pipe
        if worker in self._pulses and pulse.is_lost(misses):
            self.forget(worker)
            self._judge.lost(worker, f"no heartbeat for {misses * pulse.interval:g} s")
