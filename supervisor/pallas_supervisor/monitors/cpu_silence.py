"""Whether a worker's serving loop has stopped: counts only the time in which it could have run. Pure.

A worker that waits for a CPU is not frozen, and what this process slept through says nothing about a worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pallas_supervisor.processes.linux.procfs import Usage

PATIENCE = 1.5
"""Intervals after a heartbeat at which the next one counts as missing: heartbeats come late by a bit."""

LATE = 0.5
"""Intervals by which a look may be late and still say something."""

_RUNNABLE = "R"
_EXCUSED = frozenset("Dt")
"""Waiting for a disk, or stopped by a debugger: neither is the serving loop's doing."""


class Silence:
    """One worker's heartbeats and the silence since the last one. Times in seconds, on any clock that never goes back.

    Args:
        interval: from one heartbeat to the next.
    """

    def __init__(self, interval: float, now: float, usage: Usage) -> None:
        self.beat(interval, now, usage)

    def beat(self, interval: float, now: float, usage: Usage) -> None:
        """A heartbeat came."""
        self.interval = interval
        self.silence = 0.0
        self.due = now + PATIENCE * interval
        self._looked = now
        self._usage = usage

    def look(self, now: float, state: str, usage: Usage) -> None:
        """Take stock at `due`, at which no heartbeat had come: adds to `silence` and moves `due`.

        Args:
            state: the thread's, one letter as in /proc/PID/stat.
        """
        window = now - self._looked
        late = now - self.due > LATE * self.interval
        if not late and state not in _EXCUSED:
            waited = usage.waiting - self._usage.waiting
            if state == _RUNNABLE:  # perhaps since long ago
                waited = max(waited, window - (usage.running - self._usage.running))
            self.silence += min(max(window - waited, 0.0), window)
        self.excuse(now, usage)

    def excuse(self, now: float, usage: Usage) -> None:
        """Let the time since the last look count for nothing, and look again an interval from now."""
        self._looked = now
        self._usage = usage
        self.due = now + self.interval

    def is_lost(self, misses: int) -> bool:
        """Whether so many heartbeats in a row are missing."""
        return self.silence >= misses * self.interval
