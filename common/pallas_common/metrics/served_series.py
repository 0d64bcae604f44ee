"""Which series of an agent are served, and which names they take up in a page. Pure.

Names are those that every format can say (letters, digits, `_` and, for metrics, `:`), so metrics whose names differ in
other characters alone are one name. What does not fit costs itself: the whole page would be refused by Prometheus for a
label that is there twice, and a name twice makes two agents' numbers one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pallas_common.metrics.exposition import clean_text, label_name, metric_name
from pallas_common.metrics.merge import bound_of
from pallas_common.metrics.mmap_file import DamagedError, Series, parse_key
from pallas_common.problems import shortened

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

PREFIX = "pallas_"
"""What the names of Pallas' own metrics begin with."""

WORKER_METRICS: Mapping[str, tuple[str, frozenset[str]]] = {
    "pallas_send_message": ("counter", frozenset({"agent", "outcome"})),
    "pallas_send_message_duration_seconds": ("histogram", frozenset({"agent"})),
    "pallas_llm_turns": ("counter", frozenset({"agent", "model"})),
    "pallas_llm_tokens": ("counter", frozenset({"agent", "model", "kind"})),
    "pallas_model_tool_calls": ("counter", frozenset({"agent", "server", "outcome"})),
    "pallas_refused_tool_calls": ("counter", frozenset({"agent"})),
    "pallas_tool_calls": ("counter", frozenset({"agent", "server", "operation", "outcome"})),
    "pallas_tool_call_duration_seconds": ("histogram", frozenset({"agent", "server", "operation"})),
    "pallas_downstream_up": ("gauge_livemostrecent", frozenset({"agent", "server"})),
    "pallas_llm_provider_up": ("gauge_livemostrecent", frozenset({"provider"})),
    "pallas_health_checked_timestamp_seconds": ("gauge_livemostrecent", frozenset({"agent"})),
    "pallas_calls_running": ("gauge_livesum", frozenset({"agent"})),
    "pallas_calls_waiting": ("gauge_livesum", frozenset({"agent"})),
}
"""Pallas' own metrics that workers write: kind and labels. No other of that prefix is taken from a worker."""

GATEWAY = "@gateway"
"""The owner of the gateway's files; no agent can be called so."""

GATEWAY_METRICS: Mapping[str, tuple[str, frozenset[str]]] = {
    "pallas_gateway_requests": ("counter", frozenset({"surface", "role", "outcome"})),
    "pallas_gateway_access_denied": ("counter", frozenset({"reason"})),
    "pallas_gateway_requests_in_flight": ("gauge_livesum", frozenset()),
    "pallas_gateway_tool_duration_seconds": ("histogram", frozenset({"surface", "tool"})),
    "pallas_gateway_relay_duration_seconds": ("histogram", frozenset({"server", "outcome"})),
    "pallas_gateway_resource_reads": ("counter", frozenset({"surface", "outcome"})),
    "pallas_gateway_subscribers": ("gauge_livesum", frozenset()),
    "pallas_gateway_streams": ("gauge_livesum", frozenset()),
    "pallas_gateway_upstream_connections": ("gauge_livesum", frozenset()),
    "pallas_gateway_turns": ("gauge_livesum", frozenset()),
    "pallas_gateway_turn_duration_seconds": ("histogram", frozenset({"outcome"})),
    "pallas_gateway_threads_deleted": ("counter", frozenset({"reason"})),
    "pallas_gateway_store_errors": ("counter", frozenset()),
    "pallas_gateway_audit_lines": ("counter", frozenset({"outcome"})),
}
"""Those that the gateway writes, and nobody else."""

GAUGE_MODES = ("all", "min", "max", "sum", "mostrecent")
LIVE_GAUGES = tuple(f"gauge_live{mode}" for mode in GAUGE_MODES)
"""Kinds of gauges that go with their process."""
KINDS = frozenset(
    {"counter", "histogram", "summary", *LIVE_GAUGES, *(f"gauge_{mode}" for mode in GAUGE_MODES)}
)
"""All that prometheus_client writes in multiprocess mode."""

MAX_KEY = 8192
"""Bytes of a series' names, labels and help, as JSON."""

_SUFFIXES: Mapping[str, tuple[str, ...]] = {
    "counter": ("_total", "_created"),
    "histogram": ("_bucket", "_sum", "_count", "_created"),
    "summary": ("_sum", "_count", "_created"),
    "info": ("_info",),
}
"""What names of samples add to that of their metric, in any format (OpenMetrics 1.0, "Metric Types")."""
_SAMPLES: Mapping[str, tuple[str, ...]] = {
    "counter": ("_total",),
    "histogram": ("_bucket", "_sum"),
    "summary": ("_sum", "_count"),
}
"""What prometheus_client writes of it; a histogram's count is that of its last bucket."""


class RefusedError(ValueError):
    """A series is not served; the message says why.

    Args:
        metric: its name; empty if even that cannot be read.
    """

    def __init__(self, metric: str, message: str) -> None:
        super().__init__(message)
        self.metric = metric


def names_taken(metric: str, type_: str) -> frozenset[str]:
    """All names that a metric and its samples may have in a page, in either format.

    Args:
        metric: without the `_total` of a counter.
        type_: the type, or the kind of a values file.
    """
    name = metric_name(metric)
    return frozenset((name, *(name + suffix for suffix in _SUFFIXES.get(type_, ()))))


def checked(kind: str, key: bytes, owner: str | None) -> Series:
    """The series of a key of an agent's values file; names of labels, and all text, are as a page can say them.

    Args:
        kind: one of `KINDS`.
        owner: the agent, to whom alone the label `agent` and the names of Pallas' own metrics belong; None where
            there is nobody else.

    Raises:
        RefusedError: it must not be served.
    """
    if len(key) > MAX_KEY:
        raise RefusedError("", f"names, labels and help have {len(key)} bytes, at most {MAX_KEY} are served")
    try:
        series = parse_key(key)
    except DamagedError as error:
        raise RefusedError("", str(error)) from None
    _check_name(series, kind, GATEWAY_METRICS if owner == GATEWAY else WORKER_METRICS)
    labels: dict[str, str] = {}
    for raw, text in series.labels:
        name = label_name(raw)
        if not name or name.startswith("__"):
            raise RefusedError(series.family, f"a label must not be called {shown(raw)}")
        if name in labels:
            raise RefusedError(
                series.family, f"two of its labels are {name}, where other characters become _"
            )
        labels[name] = clean_text(text)
    _check_labels(series, kind, labels)
    if owner is not None and labels.get("agent", owner) != owner:
        message = f"its label agent says {shown(labels['agent'])}, and may say the agent's own name alone"
        raise RefusedError(series.family, message)
    return series._replace(labels=tuple(sorted(labels.items())))


def shown(text: str) -> str:
    """A name that another process has chosen, for a log line: short, and of printable characters."""
    return ascii(shortened(text, 80))


def _check_name(series: Series, kind: str, own: Mapping[str, tuple[str, frozenset[str]]]) -> None:
    if not series.family:
        raise RefusedError("", "a metric has no name")
    samples = [series.family + suffix for suffix in _SAMPLES.get(kind, ("",))]
    if series.sample not in samples:
        raise RefusedError(series.family, f"its type has no sample {shown(series.sample)}")
    if metric_name(series.family).startswith(PREFIX):
        known = own.get(series.family)
        if known is None:
            raise RefusedError(series.family, f"names that begin with {PREFIX} are Pallas' own")
        if known != (kind, frozenset(name for name, _ in series.labels) - {"le"}):
            raise RefusedError(
                series.family, "Pallas' own metric of this name has another type or other labels"
            )


def _check_labels(series: Series, kind: str, labels: Mapping[str, str]) -> None:
    """What a merge adds to the labels, or reads from them, has to be its own."""
    family = series.family
    if kind == "histogram":
        bound = bound_of(series)
        if series.sample.endswith("_bucket"):
            if bound is None or math.isnan(bound) or bound == -math.inf:
                raise RefusedError(family, "a bucket of it has no number as its label le")
        elif "le" in labels:
            raise RefusedError(family, "the label le is for buckets")
    elif kind == "summary" and "quantile" in labels:
        raise RefusedError(family, "the label quantile is not for sums and counts")
    elif kind in ("gauge_all", "gauge_liveall") and "pid" in labels:
        raise RefusedError(family, "the label pid is for the process that has set it")


class TakenNames:
    """Which metric has which names of a page. One that had them first keeps them for as long as it is there."""

    def __init__(self) -> None:
        self._holders: dict[str, tuple[str, str]] = {}

    def settle(self, metrics: Collection[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """Who has to be left out, and the name that another one has.

        Args:
            metrics: names and kinds of all that are there, in the order in which they have a choice.
        """
        holders = {name: holder for name, holder in self._holders.items() if holder in metrics}
        left_out = {}
        for metric in metrics:
            names = names_taken(*metric)
            taken = sorted(name for name in names if holders.get(name, metric) != metric)
            if taken:
                left_out[metric] = taken[0]
            else:
                holders.update(dict.fromkeys(names, metric))
        self._holders = holders
        return left_out
