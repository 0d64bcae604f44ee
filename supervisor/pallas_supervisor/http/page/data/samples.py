"""What the page reads from the series that a scrape shows: calls, tokens, downstream servers. Pure.

Knows the series' names and labels; nothing of where they come from.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prometheus_client.core import Metric


@dataclass(slots=True)
class Totals:
    """An agent's counters, and what it does now."""

    calls: float = 0
    errors: float = 0
    tokens: Counter[str] = field(default_factory=Counter)
    """By kind."""
    running: int = 0
    waiting: int = 0
    durations: dict[float, float] = field(default_factory=dict)
    """Calls that took at most so many seconds, by the seconds; the last are infinite."""

    @property
    def tokens_in(self) -> int:
        """All that the models were sent: `input` has the hits of a cache, but not what is counted by itself."""
        return self.tokens["input"] + self.tokens["cache_read"] + self.tokens["cache_write"]

    @property
    def tokens_out(self) -> int:
        """All that the models answered, reasoning included."""
        return self.tokens["output"]


@dataclass(slots=True)
class Model:
    """Use of one model by all agents together."""

    turns: float = 0
    tokens: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Samples:
    """One reading of all agents' series."""

    agents: defaultdict[str, Totals] = field(default_factory=lambda: defaultdict(Totals))
    models: defaultdict[str, Model] = field(default_factory=lambda: defaultdict(Model))
    downstreams: defaultdict[str, dict[str, bool]] = field(default_factory=lambda: defaultdict(dict))
    """Server → agent → whether the agent's newest probe of it passed."""
    providers: dict[str, bool] = field(default_factory=dict)


def read_samples(metrics: Iterable[Metric]) -> Samples:
    """Sort the workers' series; those that the page does not show are left out."""
    found = Samples()
    for metric in metrics:
        if (take := _TAKERS.get(metric.name)) is None:
            continue
        for sample in metric.samples:
            if math.isfinite(sample.value):  # an agent's code can set anything
                take(found, sample.labels, sample.value)
    return found


def _calls(found: Samples, labels: dict[str, str], value: float) -> None:
    totals = found.agents[labels["agent"]]
    totals.calls += value
    if labels["outcome"] != "ok":
        totals.errors += value


def _durations(found: Samples, labels: dict[str, str], value: float) -> None:
    if (bound := labels.get("le")) is not None:  # else it is their sum or number
        found.agents[labels["agent"]].durations[float(bound)] = value


def _turns(found: Samples, labels: dict[str, str], value: float) -> None:
    found.models[labels["model"]].turns += value


def _tokens(found: Samples, labels: dict[str, str], value: float) -> None:
    found.agents[labels["agent"]].tokens[labels["kind"]] += int(value)
    found.models[labels["model"]].tokens[labels["kind"]] += int(value)


def _running(found: Samples, labels: dict[str, str], value: float) -> None:
    found.agents[labels["agent"]].running = int(value)


def _waiting(found: Samples, labels: dict[str, str], value: float) -> None:
    found.agents[labels["agent"]].waiting = int(value)


def _downstream(found: Samples, labels: dict[str, str], value: float) -> None:
    found.downstreams[labels["server"]][labels["agent"]] = value >= 1


def _provider(found: Samples, labels: dict[str, str], value: float) -> None:
    found.providers[labels["provider"]] = value >= 1


_TAKERS = {
    "pallas_send_message": _calls,
    "pallas_send_message_duration_seconds": _durations,
    "pallas_llm_turns": _turns,
    "pallas_llm_tokens": _tokens,
    "pallas_calls_running": _running,
    "pallas_calls_waiting": _waiting,
    "pallas_downstream_up": _downstream,
    "pallas_llm_provider_up": _provider,
}


def quantile(durations: Mapping[float, float], share: float) -> float | None:
    """Seconds within which this share of the calls ended; None without calls.

    Between the bounds of a bucket the calls are taken to be spread evenly. Beyond the last finite bound there is no
    telling: then it is that bound.
    """
    bounds = sorted(durations)
    if not bounds or not (number := durations[bounds[-1]]) > 0:
        return None
    wanted, below, low = share * number, 0.0, 0.0
    for bound in bounds:
        count = durations[bound]
        if count >= wanted and count > below:
            return (
                low
                if math.isinf(bound)
                else round(low + (bound - low) * (wanted - below) / (count - below), 4)
            )
        below, low = count, bound
    return None


SHOWN = frozenset(_TAKERS)
"""Metrics that the page reads."""
