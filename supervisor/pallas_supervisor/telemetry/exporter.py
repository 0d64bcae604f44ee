"""What the supervisor itself can tell Prometheus: states, restarts, starts, health, lost log lines, its own lag.

Knows the engine's agents; the workers' own series come in as families, those of processes by `process_metrics`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    values,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from pallas_common.metrics.agent_series import Warnings
from pallas_common.metrics.exposition import Family, choose, encoded, number, page, sample_prefix
from pallas_common.metrics.served_series import names_taken, shown
from pallas_supervisor.lifecycle.states import State
from pallas_supervisor.telemetry.agent_lines import AgentLines
from pallas_supervisor.telemetry.loop_lag import LoopLag
from pallas_supervisor.telemetry.process_metrics import WorkerProcessCollector, ZygoteCollector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pallas_supervisor.telemetry.agent_lines import ScrapeFacts

# Whatever PROMETHEUS_MULTIPROC_DIR says, which may be meant for another program: these counts begin with this process.
values.ValueClass = values.MutexValue

LAG_BUCKETS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)


class AgentCollector(Collector):
    """What is known of agents that changes all the time, made anew for every scrape."""

    def __init__(self, facts: ScrapeFacts) -> None:
        self._facts = facts

    def collect(self) -> Iterator[Metric]:
        """`pallas_up`, `pallas_worker_memory_used_bytes`, `pallas_worker_memory_limit_bytes`."""
        yield GaugeMetricFamily("pallas_up", "1 while the supervisor is running.", value=1)
        used = GaugeMetricFamily(
            "pallas_worker_memory_used_bytes",
            "Memory in bytes that counts against the agent's memory_limit: what no file backs.",
            labels=["agent"],
        )
        limit = GaugeMetricFamily(
            "pallas_worker_memory_limit_bytes",
            "The agent's memory_limit in bytes, as its worker was started with it.",
            labels=["agent"],
        )
        ports = self._facts.ports
        for name, (taken, allowed) in self._facts.memory.items():
            if name in ports:
                used.add_metric([name], taken)
                limit.add_metric([name], allowed)
        yield from (used, limit)


class GatewayCollector(Collector):
    """Whether the gateway serves, and how often it was started again; nothing where there is none."""

    def __init__(self) -> None:
        self.is_up: Callable[[], bool | None] = lambda: None
        """None where there is no gateway."""
        self._restarts: Counter[str] = Counter()

    def count_restart(self, reason: str) -> None:
        """Its process is started again."""
        self._restarts[reason] += 1

    def collect(self) -> Iterator[Metric]:
        """`pallas_gateway_up`, `pallas_gateway_restarts_total`."""
        if (is_up := self.is_up()) is None:
            return
        yield GaugeMetricFamily(
            "pallas_gateway_up", "1 while the gateway serves, else 0.", value=float(is_up)
        )
        restarts = CounterMetricFamily(
            "pallas_gateway_restarts",
            "Starts of the gateway after its first one, by reason.",
            labels=["reason"],
        )
        for reason, count in self._restarts.copy().items():
            restarts.add_metric([reason], count)
        yield restarts


class _OwnNames:
    """The names of the supervisor's own metrics, which no other may have."""

    def __init__(self) -> None:
        self._metrics: set[tuple[str, str]] = set()
        self._names: set[str] = set()
        self._verdicts: dict[tuple[str, str], bool] = {}
        self._warnings = Warnings(None)

    def look(self, families: Iterable[Family]) -> None:
        """These are its own; one that was keeps its names."""
        for family in families:
            metric = (family.name, family.type)
            if metric not in self._metrics:
                self._metrics.add(metric)
                self._names |= names_taken(*metric)
                self._verdicts.clear()

    def admits(self, family: Family) -> bool:
        """Whether a worker's metric has none of the names; looked at once."""
        metric = (family.name, family.type)
        if (admitted := self._verdicts.get(metric)) is None:
            admitted = self._verdicts[metric] = self._names.isdisjoint(names_taken(*metric))
            if not admitted:
                message = (
                    f"a worker's metric {shown(family.name)} is left out: the supervisor has one of its names"
                )
                self._warnings.warn(family.name, message)
        return admitted


class Metrics:
    """The supervisor's registry, and the whole answer to a scrape. One scrape at a time.

    Args:
        facts: what is published of the agents.
        merged: what the workers wrote, as text.
    """

    def __init__(self, facts: ScrapeFacts, merged: Callable[[], Iterable[Family]]) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self.workers = WorkerProcessCollector(lambda: facts.processes, lambda name: _is_idle(facts, name))
        self.gateway = GatewayCollector()
        self.agents = AgentLines(facts)
        """Takes what happens to agents."""
        self._merged = merged
        self._prefixes: dict[tuple[str, ...], str] = {}
        self._taken = _OwnNames()
        for collector in (
            AgentCollector(facts),
            self.gateway,
            self.workers,
            ZygoteCollector(lambda: facts.zygote_pid),
        ):
            self.registry.register(collector)
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        lag = Histogram(
            "pallas_supervisor_loop_lag_seconds",
            "How late the supervisor's event loop came to what was due, looked at once a second, in seconds.",
            buckets=LAG_BUCKETS,
            registry=self.registry,
        )
        self.lag = LoopLag(lag.observe)

    def forget(self, agent: str) -> None:
        """Drop the series of an agent that has been removed."""
        self.agents.forget(agent)
        self.workers.forget(agent)

    def render(self, accept: str) -> tuple[bytes, str]:
        """All series in the format that the Accept header asks for, and its content type."""
        content_type = choose(accept)
        families = [family for family in self._own() if family.lines]
        self._taken.look(families)
        families += [family for family in self._merged() if self._taken.admits(family)]
        return page(families, content_type), content_type

    def _own(self) -> Iterator[Family]:
        """The supervisor's series as text."""
        known, self._prefixes = self._prefixes, {}  # what is of agents that have no process now is not kept
        for metric in self.registry.collect():
            yield self._text(metric, known)
        yield from self.agents.families()

    def _text(self, metric: Metric, known: Mapping[tuple[str, ...], str]) -> Family:
        """The metric as text; the part of a line before the value is kept from scrape to scrape."""
        lines = []
        for sample in metric.samples:
            if sample.name.endswith("_created"):  # the workers' series have no such thing
                continue
            key = (sample.name, *sample.labels.values())
            prefix = known.get(key) or sample_prefix(sample.name, sample.labels.items())
            self._prefixes[key] = prefix
            lines.append(f"{prefix}{number(float(sample.value))}\n")
        return Family(metric.name, metric.type, metric.documentation, encoded("".join(lines)))


def _is_idle(facts: ScrapeFacts, name: str) -> bool:
    agent = facts.agents.get(name)
    return agent is not None and agent.state is State.IDLE
