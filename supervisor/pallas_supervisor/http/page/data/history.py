"""The last quarter of an hour: calls, errors, tokens and memory by interval, and changes of state. Pure, bounded.

Knows numbers and names; nothing of clocks (the caller says when it is), of series or of pages.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

INTERVAL = 15.0
"""Seconds between two recordings."""
POINTS = 60
"""Recordings that are kept: fifteen minutes."""
WINDOW = INTERVAL * POINTS
RATE_WINDOW = 60.0
"""Seconds over which a rate is taken, at least."""
MAX_CHANGES = 256
"""Changes of state that are kept of an agent."""


class Count(NamedTuple):
    """Counters of an agent, or how much they grew."""

    calls: float = 0
    errors: float = 0
    tokens: float = 0

    def since(self, before: Count) -> Count:
        """How much was counted; a counter that is smaller than before was reset."""
        return Count(
            self.calls - before.calls if self.calls >= before.calls else self.calls,
            self.errors - before.errors if self.errors >= before.errors else self.errors,
            self.tokens - before.tokens if self.tokens >= before.tokens else self.tokens,
        )

    def plus(self, other: Count) -> Count:
        """Both together."""
        return Count(self.calls + other.calls, self.errors + other.errors, self.tokens + other.tokens)

    def per_minute(self, seconds: float) -> Count:
        """The rate, if all of it came within so many seconds."""
        factor = 60.0 / seconds
        return Count(self.calls * factor, self.errors * factor, self.tokens * factor)


class Point(NamedTuple):
    """One interval: what was counted in it, and the resident memory in bytes at its end, None without a process."""

    counted: Count
    memory: int | None


class Stretch(NamedTuple):
    """A time in one state, both ends as shares of the window: 0 is its beginning, 1 is now."""

    begin: float
    end: float
    state: str


@dataclass(frozen=True, slots=True)
class Trend:
    """What the page draws of an agent, or of several."""

    rate: Count
    """Per minute, over the last minute."""
    points: tuple[Point, ...]
    """The recorded intervals, the newest last; at most `POINTS`."""


_NOTHING = Point(Count(), None)
"""One object for all intervals in which an agent had no process."""


@dataclass(slots=True)
class _Track:
    seen: Count
    points: list[Point] = field(default_factory=list)
    quiet: int = 0
    """How many intervals the agent had no process, without one in which it had."""
    changes: list[tuple[float, str]] = field(default_factory=list)

    def record(self, point: Point) -> None:
        """End an interval; where all of the window have nothing to say, none is kept: there may be a thousand."""
        if point == _NOTHING and not self.points:
            return
        self.quiet = self.quiet + 1 if point == _NOTHING else 0
        if self.quiet < POINTS:
            self.points.append(_NOTHING if point == _NOTHING else point)
            del self.points[:-POINTS]
        else:
            self.points, self.quiet = [], 0

    def forget_changes(self, before: float) -> None:
        """Forget all states that were over by then."""
        over = 0
        while over + 1 < len(self.changes) and self.changes[over + 1][0] <= before:
            over += 1
        del self.changes[:over]


class History:
    """Remembers what was recorded; `now` is in seconds on any clock that does not go back."""

    def __init__(self, now: float) -> None:
        self.recorded = now
        """When the last recording was made."""
        self._tracks: dict[str, _Track] = {}

    def change(self, name: str, state: str, now: float) -> None:
        """The agent is in this state from now on."""
        changes = self._track(name).changes
        changes.append((now, state))
        del changes[:-MAX_CHANGES]

    def record(self, counts: Mapping[str, Count], memory: Mapping[str, int], now: float) -> None:
        """End an interval.

        Args:
            counts: the agents' counters; one without any has not counted yet, or is idle, and goes on later.
            memory: resident memory in bytes of the agents that have a process.
        """
        self.recorded = now
        for name in self._tracks.keys() | counts.keys() | memory.keys():
            track = self._track(name)
            count = counts.get(name, track.seen)
            track.record(Point(count.since(track.seen), memory.get(name)))
            track.seen = count
            track.forget_changes(now + INTERVAL - WINDOW)

    def keep(self, names: Iterable[str]) -> None:
        """Forget all other agents."""
        for name in self._tracks.keys() - set(names):
            del self._tracks[name]

    def seen(self, name: str) -> Count:
        """The agent's counters as they were recorded last."""
        return self._track(name).seen

    def is_quiet(self, name: str) -> bool:
        """Whether the agent had no process in the whole window."""
        return not self._track(name).points

    def trend(self, name: str, count: Count, now: float) -> Trend:
        """The agent's intervals, and its rate up to this very moment, at which its counters are `count`."""
        track = self._track(name)
        back = int(RATE_WINDOW // INTERVAL)
        recent = count.since(track.seen)
        for point in track.points[-back:]:
            recent = recent.plus(point.counted)
        covered = min(len(track.points), back) * INTERVAL + max(now - self.recorded, 0.0)
        return Trend(recent.per_minute(max(covered, RATE_WINDOW)), tuple(track.points))

    def stretches(self, name: str) -> list[Stretch]:
        """The states of the window that ends with the interval under way, so that it moves only with intervals."""
        end = self.recorded + INTERVAL
        changes = self._track(name).changes
        ends = [*[time for time, _ in changes][1:], end]
        found = []
        for (begin, state), until in zip(changes, ends, strict=True):
            first, last = ((moment - end) / WINDOW + 1.0 for moment in (begin, until))
            if last > 0.0:
                found.append(Stretch(max(first, 0.0), min(max(last, 0.0), 1.0), state))
        return found

    def _track(self, name: str) -> _Track:
        if (track := self._tracks.get(name)) is None:
            track = self._tracks[name] = _Track(Count())
        return track


def together(trends: Iterable[Trend]) -> Trend:
    """The sum of several agents' trends; those that came later have fewer intervals."""
    taken = [trend for trend in trends if trend.points or any(trend.rate)]
    rate = Count()
    for trend in taken:
        rate = rate.plus(trend.rate)
    back = itertools.zip_longest(*(reversed(trend.points) for trend in taken))
    points = [_sum([point for point in column if point is not None]) for column in back]
    return Trend(rate, tuple(reversed(points)))


def _sum(points: list[Point]) -> Point:
    counted = [point.counted for point in points]
    memory = [point.memory for point in points if point.memory is not None]
    count = Count(
        sum([count.calls for count in counted]),
        sum([count.errors for count in counted]),
        sum([count.tokens for count in counted]),
    )
    return Point(count, sum(memory) if memory else None)
