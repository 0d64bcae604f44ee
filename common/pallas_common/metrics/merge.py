"""How values of several files become one: what prometheus_client's multiprocess mode means by its kinds. Pure.

Knows kinds, labels and numbers; nothing of files or of text.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pallas_common.metrics.mmap_file import Series

type Labels = tuple[tuple[str, str], ...]
type Merged = dict[tuple[str, Labels], float]
"""Sample and labels → value."""


class Value(NamedTuple):
    """One entry of one file."""

    series: Series
    value: float
    timestamp: float
    writer: str
    """What stands for the process in the file's name."""


def bound_of(series: Series) -> float | None:
    """The upper bound, if the series is a bucket of a histogram."""
    for name, text in series.labels:
        if name == "le":
            try:
                return float(text)
            except ValueError:
                return None
    return None


def without_bound(labels: Labels) -> Labels:
    """The labels of the histogram to which a bucket belongs."""
    return tuple(label for label in labels if label[0] != "le")


def format_bound(bound: float) -> str:
    """A bucket's bound as Go, and so every Prometheus, writes it."""
    if bound == float("inf"):
        return "+Inf"
    text = repr(bound)
    dot = text.find(".")
    if bound > 0 and dot > 6:
        mantissa = f"{text[0]}.{text[1:dot]}{text[dot + 1 :]}".rstrip("0.")
        return f"{mantissa}e+0{dot - 1}"
    return text


def merge(kind: str, values: Iterable[Value]) -> Merged:
    """Merge one family.

    Args:
        kind: `counter`, `summary`, `histogram`, or `gauge_` and the mode.
    """
    if kind == "histogram":
        return _merge_histogram(values)
    if kind.startswith("gauge_"):
        return _merge_gauge(kind.removeprefix("gauge_").removeprefix("live"), values)
    return _sum(values)


def _sum(values: Iterable[Value]) -> Merged:
    merged: Merged = {}
    for series, value, _, _ in values:
        key = (series.sample, series.labels)
        merged[key] = merged.get(key, 0.0) + value
    return merged


def _merge_gauge(mode: str, values: Iterable[Value]) -> Merged:
    merged: Merged = {}
    if mode == "sum":
        return _sum(values)
    newest: dict[tuple[str, Labels], float] = {}
    for series, value, timestamp, writer in values:
        key = (series.sample, series.labels)
        match mode:
            case "min":
                merged[key] = value if value < merged.setdefault(key, value) else merged[key]
            case "max":
                merged[key] = value if value > merged.setdefault(key, value) else merged[key]
            case "mostrecent":  # one that was never set has time 0, and never wins
                if timestamp > newest.get(key, 0.0):
                    merged[key], newest[key] = value, timestamp
            case _:
                merged[series.sample, (*series.labels, ("pid", writer))] = value
    return merged


def _merge_histogram(values: Iterable[Value]) -> Merged:
    merged: Merged = {}
    buckets: dict[tuple[str, Labels], dict[float, float]] = {}
    for series, value, _, _ in values:
        bound = bound_of(series)
        if bound is None:
            key = (series.sample, series.labels)
            merged[key] = merged.get(key, 0.0) + value
        else:
            of_histogram = buckets.setdefault((series.family, without_bound(series.labels)), {})
            of_histogram[bound] = of_histogram.get(bound, 0.0) + value
    for (family, labels), counts in buckets.items():
        bounds = sorted(counts)
        totals = list(accumulate(counts[bound] for bound in bounds))
        for bound, total in zip(bounds, totals, strict=True):
            merged[f"{family}_bucket", (*labels, ("le", format_bound(bound)))] = total
        merged[f"{family}_count", labels] = totals[-1]
    return merged
