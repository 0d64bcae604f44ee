"""What the supervisor itself can tell Prometheus: states, restarts, starts, health, lost log lines, its own lag.

Knows the engine's agents; the workers' own series come in as families, those of processes by `process_metrics`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from prometheus_client import (
    CollectorRegistry,
    Counter,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    values,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from pallas_common.metrics.agent_info import HEALTH, HEALTH_HELP, HEALTH_VALUES, INFO, INFO_HELP
from pallas_common.metrics.agent_series import Warnings
from pallas_common.metrics.exposition import Family, choose, encoded, number, page, sample_prefix
from pallas_common.metrics.served_series import names_taken, shown
from pallas_supervisor.lifecycle.states import State
from pallas_supervisor.telemetry.loop_lag import LoopLag
from pallas_supervisor.telemetry.process_metrics import WorkerProcess, WorkerProcessCollector, ZygoteCollector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pallas_common.protocol.reports import Status
    from pallas_supervisor.lifecycle.states import Agent

# Whatever PROMETHEUS_MULTIPROC_DIR says, which may be meant for another program: these counts begin with this process,
# and with an agent that is added again.
values.ValueClass = values.MutexValue

RESTART_REASONS = (
    "crash",
    "dependency",
    "memory",
    "oom",
    "operator",
    "reload",
    "start_timeout",
    "unhealthy",
)
"""Counted from 0, so that an alert sees the first one. The machine may know more."""

START_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
LAG_BUCKETS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)


class ScrapeFacts(Protocol):
    """What a scrape needs to know of the agents."""

    @property
    def agents(self) -> Mapping[str, Agent]:
        """The agents as they are."""

    @property
    def ports(self) -> Mapping[str, int]:
        """Their ports."""

    @property
    def processes(self) -> Iterable[WorkerProcess]:
        """Every live worker."""

    @property
    def zygote_pid(self) -> int | None:
        """The process that workers are forked from."""

    @property
    def health(self) -> Mapping[str, Status]:
        """The agents' health."""

    @property
    def memory(self) -> Mapping[str, tuple[int, int]]:
        """Bytes taken and allowed, of each agent with a `memory_limit`."""

    @property
    def call_bounds(self) -> Mapping[str, tuple[int, int]]:
        """Each agent's `max_concurrency` and `max_queue`."""

    @property
    def lost_lines(self) -> Mapping[tuple[str, str], int]:
        """Log lines that were lost so far, by agent and reason."""

    @property
    def unreadable_reports(self) -> Mapping[str, int]:
        """Lines of each agent's workers that are no report."""


class AgentCollector(Collector):
    """What is known of agents, made anew for every scrape, so that nothing of a removed agent remains."""

    def __init__(self, facts: ScrapeFacts) -> None:
        self._facts = facts

    def collect(self) -> Iterator[Metric]:
        """`pallas_up`, `pallas_agent_info`, `pallas_agent_health_status`, bounds, lost lines."""
        yield GaugeMetricFamily("pallas_up", "1 while the supervisor is running.", value=1)
        info = GaugeMetricFamily(INFO, INFO_HELP, labels=["agent", "port"])
        health = GaugeMetricFamily(HEALTH, HEALTH_HELP, labels=["agent"])
        ports, healths = self._facts.ports, self._facts.health
        for name in dict(self._facts.agents):
            if name not in ports or name not in healths:  # a reload is under way beside this thread
                continue
            info.add_metric([name, str(ports[name])], 1)
            health.add_metric([name], HEALTH_VALUES[healths[name]])
        yield from (info, health)
        yield from self._bounds(ports)
        lost = CounterMetricFamily(
            "pallas_log_lines_lost",
            "Log lines that reached no log, by reason: flood (more came from the agent than is taken in),"
            " disk (it was full, or too slow).",
            labels=["agent", "reason"],
        )
        for (name, reason), lines in self._facts.lost_lines.items():
            if not name or name in ports:
                lost.add_metric([name, reason], lines)
        yield lost
        unreadable = CounterMetricFamily(
            "pallas_reports_unreadable",
            "Lines of the agent's workers to the supervisor that are none of its reports.",
            labels=["agent"],
        )
        for name, lines in self._facts.unreadable_reports.items():
            if name in ports:
                unreadable.add_metric([name], lines)
        yield unreadable

    def _bounds(self, ports: Mapping[str, int]) -> Iterator[Metric]:
        concurrency = GaugeMetricFamily(
            "pallas_calls_max_running",
            "Turns of the agent that may run at once: its max_concurrency.",
            labels=["agent"],
        )
        queue = GaugeMetricFamily(
            "pallas_calls_max_waiting",
            "Turns of the agent that may wait for a place: its max_queue.",
            labels=["agent"],
        )
        for name, (running, waiting) in self._facts.call_bounds.items():
            if name in ports:
                concurrency.add_metric([name], running)
                queue.add_metric([name], waiting)
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
        for name, (taken, allowed) in self._facts.memory.items():
            if name in ports:
                used.add_metric([name], taken)
                limit.add_metric([name], allowed)
        yield from (concurrency, queue, used, limit)


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
        self.workers = WorkerProcessCollector(lambda: facts.processes)
        self._merged = merged
        self._facts = facts
        self._prefixes: dict[tuple[str, ...], str] = {}
        self._taken = _OwnNames()
        for collector in (AgentCollector(facts), self.workers, ZygoteCollector(lambda: facts.zygote_pid)):
            self.registry.register(collector)
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self._restarts = Counter(
            "pallas_worker_restarts",
            "Starts of a worker after its first one, by reason.",
            ["agent", "reason"],
            registry=None,
        )
        self._starts = Histogram(
            "pallas_worker_start_seconds",
            "Time from the spawn of a worker until it is ready, in seconds.",
            ["agent"],
            buckets=START_BUCKETS,
            registry=None,
        )
        self._changes = 0
        """How often one of these two has changed."""
        self._kept: tuple[object, list[Family]] = (None, [])
        """What changes only with an agent's state, and the version of which it is the text."""
        lag = Histogram(
            "pallas_supervisor_loop_lag_seconds",
            "How late the supervisor's event loop came to what was due, looked at once a second, in seconds.",
            buckets=LAG_BUCKETS,
            registry=self.registry,
        )
        self.lag = LoopLag(lag.observe)

    def count_restart(self, agent: str, reason: str) -> None:
        """A worker is started again."""
        self._restarts.labels(agent, reason).inc()
        self._changes += 1

    def observe_start(self, agent: str, seconds: float) -> None:
        """A worker has become ready."""
        for reason in RESTART_REASONS:
            self._restarts.labels(agent, reason)
        self._starts.labels(agent).observe(seconds)
        self._changes += 1

    def forget(self, agent: str) -> None:
        """Drop the series of an agent that has been removed."""
        self._restarts.remove_by_labels({"agent": agent})
        self._starts.remove_by_labels({"agent": agent})
        self._changes += 1
        self._prefixes = {}
        self.workers.forget(agent)

    def render(self, accept: str) -> tuple[bytes, str]:
        """All series in the format that the Accept header asks for, and its content type."""
        content_type = choose(accept)
        families = [family for family in self._own() if family.lines]
        self._taken.look(families)
        families += [family for family in self._merged() if self._taken.admits(family)]
        return page(families, content_type), content_type

    def _own(self) -> Iterator[Family]:
        """The supervisor's series as text.

        Some 30 series of each agent change only with its state: their text is kept until then, which makes the rest of
        a scrape with nothing new several times as fast.
        """
        yield from map(self._text, self.registry.collect())
        ports, agents = self._facts.ports, dict(self._facts.agents).values()
        states = [(agent.name, agent.state) for agent in agents if agent.name in ports]
        version = self._changes, states  # what is counted while the text is made is in the next one
        if version != self._kept[0]:
            metrics = (_states(states), *self._restarts.collect(), *self._starts.collect())
            self._kept = version, [self._text(metric) for metric in metrics]
        yield from self._kept[1]

    def _text(self, metric: Metric) -> Family:
        """The metric as text; the part of a line before the value is kept from scrape to scrape."""
        lines = []
        for sample in metric.samples:
            if sample.name.endswith("_created"):  # the workers' series have no such thing
                continue
            key = (sample.name, *sample.labels.values())
            if (prefix := self._prefixes.get(key)) is None:
                prefix = self._prefixes[key] = sample_prefix(sample.name, sample.labels.items())
            lines.append(f"{prefix}{number(float(sample.value))}\n")
        return Family(metric.name, metric.type, metric.documentation, encoded("".join(lines)))


def _states(agents: Iterable[tuple[str, State]]) -> Metric:
    metric = GaugeMetricFamily(
        "pallas_worker_state", "1 for the state in which the agent's worker is.", labels=["agent", "state"]
    )
    for name, current in agents:
        for state in State:
            metric.add_metric([name, state], state is current)
    return metric
