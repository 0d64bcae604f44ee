"""Counts of the supervisor's own by agent, and an agent's state, as text that is made anew only when it has changed.

Knows how a line looks; nothing of what is counted. Counted on the loop's thread, read by a scrape on another.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING

from pallas_common.metrics.exposition import Family, encoded, number, sample_prefix
from pallas_common.metrics.merge import format_bound

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Tally:
    """A counter with the labels `agent` and `reason`."""

    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self._help = text
        self._counts: dict[tuple[str, str], float] = {}
        self._changes = 0
        self._kept: tuple[int, Family] | None = None

    def add(self, agent: str, reason: str, by: float = 1.0) -> None:
        """Count one more; 0 makes the series."""
        self._counts[agent, reason] = self._counts.get((agent, reason), 0.0) + by
        self._changes += 1

    def forget(self, agent: str) -> None:
        """Drop the agent's series."""
        self._counts = {key: count for key, count in self._counts.items() if key[0] != agent}
        self._changes += 1

    def family(self) -> Family:
        """All series."""
        changes = self._changes  # what is counted while the text is made is in the next one
        if self._kept is None or self._kept[0] != changes:
            lines = [
                f"{sample_prefix(f'{self._name}_total', [('agent', agent), ('reason', reason)])}{number(count)}\n"
                for (agent, reason), count in self._counts.copy().items()
            ]
            self._kept = changes, Family(self._name, "counter", self._help, encoded("".join(lines)))
        return self._kept[1]


class Durations:
    """A histogram of seconds with the label `agent`."""

    def __init__(self, name: str, text: str, bounds: Sequence[float]) -> None:
        self._name = name
        self._help = text
        self._bounds = (*bounds, math.inf)
        self._observed: dict[str, tuple[tuple[int, ...], float]] = {}
        """By agent: how many fell between two bounds, and the sum."""
        self._changes = 0
        self._kept: tuple[int, Family] | None = None

    def observe(self, agent: str, seconds: float) -> None:
        """One more took so long."""
        counts, total = self._observed.get(agent, ((0,) * len(self._bounds), 0.0))
        place = bisect_left(self._bounds, seconds)
        self._observed[agent] = ((*counts[:place], counts[place] + 1, *counts[place + 1 :]), total + seconds)
        self._changes += 1

    def forget(self, agent: str) -> None:
        """Drop the agent's series."""
        self._observed.pop(agent, None)
        self._changes += 1

    def family(self) -> Family:
        """All series."""
        changes = self._changes  # what is counted while the text is made is in the next one
        if self._kept is None or self._kept[0] != changes:
            lines = [
                line for agent, found in self._observed.copy().items() for line in self._lines(agent, *found)
            ]
            self._kept = changes, Family(self._name, "histogram", self._help, encoded("".join(lines)))
        return self._kept[1]

    def _lines(self, agent: str, counts: tuple[int, ...], total: float) -> Iterable[str]:
        label = ("agent", agent)
        for bound, count in zip(self._bounds, accumulate(counts), strict=True):
            prefix = sample_prefix(f"{self._name}_bucket", [label, ("le", format_bound(bound))])
            yield f"{prefix}{number(float(count))}\n"
        yield f"{sample_prefix(f'{self._name}_count', [label])}{number(float(sum(counts)))}\n"
        yield f"{sample_prefix(f'{self._name}_sum', [label])}{number(total)}\n"


class States:
    """For each agent a gauge for every state, with the labels `agent` and `state`: 1 for the one in which it is."""

    def __init__(self, name: str, text: str, states: Iterable[str]) -> None:
        self._name = name
        self._help = text
        self._states = tuple(states)
        self._kept: dict[tuple[str, str], bytes] = {}

    def family(self, now: Iterable[tuple[str, str]]) -> Family:
        """All series.

        Args:
            now: agents and their states.
        """
        kept = {place: self._kept.get(place) or self._lines(*place) for place in now}
        self._kept = kept
        return Family(self._name, "gauge", self._help, b"".join(kept.values()))

    def _lines(self, agent: str, current: str) -> bytes:
        lines = (
            f"{sample_prefix(self._name, [('agent', agent), ('state', state)])}{number(float(state == current))}\n"
            for state in self._states
        )
        return encoded("".join(lines))
