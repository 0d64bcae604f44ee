"""The counters, or the histograms, of one agent as lines of text: what is the same in every scrape is kept.

Knows values files and how a line looks; the slow and plain account of what is computed here is `merging`.
"""

from __future__ import annotations

import math
from itertools import accumulate
from operator import add, itemgetter
from typing import TYPE_CHECKING, NamedTuple

from pallas_common.metrics.exposition import encoded, number, sample_prefix
from pallas_common.metrics.merge import bound_of, format_bound, without_bound

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pallas_common.metrics.merge import Labels
    from pallas_common.metrics.mmap_file import ValuesFile

type _Sources = list[int]
"""Where the numbers are of which a sample is the sum."""

FAST = frozenset({"counter", "histogram", "summary"})
"""Kinds that are sums, whatever wrote them. Gauges are few, and each mode has a rule of its own."""


class _Histogram(NamedTuple):
    """Where a histogram's buckets stand among the sums, and where the rest of it ends."""

    begin: int
    rest: int
    end: int


class Shard:
    """Some files of one kind and one agent, and what they come to.

    Args:
        kind: one in `FAST`.
        files: have been read at least once.
    """

    def __init__(self, kind: str, files: Sequence[ValuesFile]) -> None:
        self.kind = kind
        self.files = tuple(files)
        self._parsed = tuple(len(file.series) for file in files)
        self.agents: dict[str, frozenset[str | None]] = {}
        """By family, the values of the label `agent`; None for a series that has no such label."""
        self._prefixes: list[str] = []
        self._slices: dict[str, tuple[int, int]] = {}
        self._histograms: list[_Histogram] = []
        self._pickers: list[Callable[[Sequence[float]], Sequence[float]]] = []
        self.lines: dict[str, bytes] = {}
        """The text of each family."""
        self._versions: tuple[int, ...] = ()
        self._compile()

    def fits(self, files: Sequence[ValuesFile]) -> bool:
        """Whether these are the files that it was made for, without a series more."""
        return self.files == tuple(files) and self._parsed == tuple(len(file.series) for file in files)

    def update(self) -> None:
        """Take in the values of the files, if there are new ones."""
        versions = tuple(file.version for file in self.files)
        if versions == self._versions:
            return
        self._versions = versions
        numbers: list[float] = []
        for file in self.files:
            numbers += file.values
        numbers.append(0.0)
        sums: Sequence[float] = self._pickers[0](numbers)
        for picker in self._pickers[1:]:
            sums = list(map(add, sums, picker(numbers)))
        values = self._accumulated(sums) if self.kind == "histogram" else sums
        write = repr if math.isfinite(sum(values)) else number
        lines = list(map(add, self._prefixes, map(write, values)))
        self.lines = {
            family: encoded("\n".join([*lines[begin:end], ""]))
            for family, (begin, end) in self._slices.items()
        }

    def _accumulated(self, sums: Sequence[float]) -> list[float]:
        values: list[float] = []
        for begin, rest, end in self._histograms:
            if rest > begin:
                values += accumulate(sums[begin:rest])
                values.append(values[-1])
            values += sums[rest:end]
        return values

    def _compile(self) -> None:
        """Lay out sums and lines: family by family, and in a histogram's family histogram by histogram."""
        families: dict[str, dict[Labels, tuple[dict[float, _Sources], dict[str, _Sources]]]] = {}
        first = 0
        for file in self.files:
            for position, series in enumerate(file.series, start=first):
                if series is None:
                    continue
                bound = bound_of(series) if self.kind == "histogram" else None
                labels = series.labels if bound is None else without_bound(series.labels)
                buckets, rest = families.setdefault(series.family, {}).setdefault(labels, ({}, {}))
                if bound is None:
                    rest.setdefault(series.sample, []).append(position)
                else:
                    buckets.setdefault(bound, []).append(position)
            first += len(file.series)
        sources: list[_Sources] = []
        for family, members in families.items():
            begin = len(self._prefixes)
            self.agents[family] = frozenset(dict(labels).get("agent") for labels in members)
            for labels, (buckets, rest) in members.items():
                self._lay_out(family, labels, buckets, rest, sources)
            self._slices[family] = (begin, len(self._prefixes))
        for depth in range(max(map(len, sources), default=1)):
            # After the files' numbers stands a 0. Twice more, as the picker of a single one gives no tuple.
            column = [places[depth] if depth < len(places) else first for places in sources]
            self._pickers.append(itemgetter(*column, first, first))

    def _lay_out(
        self,
        family: str,
        labels: Labels,
        buckets: dict[float, _Sources],
        rest: dict[str, _Sources],
        sources: list[_Sources],
    ) -> None:
        begin = len(sources)
        for bound in sorted(buckets):
            sources.append(buckets[bound])
            self._prefixes.append(sample_prefix(f"{family}_bucket", (*labels, ("le", format_bound(bound)))))
        if buckets:
            self._prefixes.append(sample_prefix(f"{family}_count", labels))
        middle = len(sources)
        for sample, places in rest.items():
            if not (buckets and sample == f"{family}_count"):
                sources.append(places)
                self._prefixes.append(sample_prefix(sample, labels))
        self._histograms.append(_Histogram(begin, middle, len(sources)))
