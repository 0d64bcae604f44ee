"""How often something may happen, by key: the generic cell rate algorithm (ITU-T I.371, annex A). Pure.

One number for each key: the time at which its next one is due if they all kept to the rate. It may be early by the
burst. Keys that have nothing outstanding are forgotten.
"""

from __future__ import annotations

from collections import OrderedDict

MOST_KEYS = 20_000
"""Keys that are remembered; beyond that, those that asked longest ago begin anew."""


class Rates:
    """One rate for each key.

    Args:
        per_minute: how many there may be in a minute, in the long run.
        burst: how many at once after a pause; a minute's worth if not given.
    """

    def __init__(self, per_minute: float, burst: float | None = None, most_keys: int = MOST_KEYS) -> None:
        self._interval = 60.0 / per_minute
        self._tolerance = self._interval * (per_minute if burst is None else burst)
        self._most = most_keys
        self._due: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._due)

    def take(self, key: str, now: float, cost: float = 1.0) -> float:
        """Count `cost` for the key; 0.0, or the seconds after which it may be tried again, and then nothing counts.

        Args:
            now: in seconds of a clock that never goes back.
        """
        wait = self.wait(key, now, cost)
        if wait == 0.0:
            self._due[key] = max(self._due.get(key, 0.0), now) + cost * self._interval
            self._due.move_to_end(key)
            self._forget(now)
        return wait

    def wait(self, key: str, now: float, cost: float = 1.0) -> float:
        """What `take` would answer, without counting."""
        due = max(self._due.get(key, 0.0), now) + cost * self._interval
        early = due - now - self._tolerance
        # Sums of intervals are not exact: the last one of a burst is not refused for that.
        return early if early > 1e-6 else 0.0

    def give_back(self, key: str, cost: float = 1.0) -> None:
        """Take back what was counted for something that did not happen."""
        if key in self._due:
            self._due[key] -= cost * self._interval

    def _forget(self, now: float) -> None:
        for _ in range(2):  # at each use at most one comes in: so their number falls
            key, due = next(iter(self._due.items()))
            if due > now and len(self._due) <= self._most:
                return
            del self._due[key]
            if not self._due:
                return
