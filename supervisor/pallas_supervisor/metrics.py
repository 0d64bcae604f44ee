"""What the supervisor itself can tell Prometheus: states, restarts, starts, health, each worker's process.

Knows the engine's agents and psutil; the workers' own series come in through `merge`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import psutil
from prometheus_client import (
    CollectorRegistry,
    Counter,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from pallas_supervisor.states import State

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pallas_registry.protocol import Status
    from pallas_supervisor.states import Agent

HEALTH_VALUES: Mapping[Status, float] = {"ok": 1.0, "degraded": 0.5, "error": 0.0}

START_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Fleet(Protocol):
    """What a scrape needs to know."""

    @property
    def agents(self) -> Mapping[str, Agent]:
        """The agents as they are."""

    @property
    def ports(self) -> Mapping[str, int]:
        """Their ports."""

    @property
    def pids(self) -> Mapping[str, int]:
        """The live workers."""

    @property
    def health(self) -> Mapping[str, Status]:
        """The agents' health."""


class FleetCollector(Collector):
    """Gauges about agents, made anew for every scrape, so that nothing of a removed agent remains."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def collect(self) -> Iterator[Metric]:
        """`pallas_up`, `pallas_agent_info`, `pallas_agent_health_status`, `pallas_worker_state`."""
        yield GaugeMetricFamily("pallas_up", "1 while the supervisor is running.", value=1)
        info = GaugeMetricFamily("pallas_agent_info", "1 per configured agent.", labels=["agent", "port"])
        health = GaugeMetricFamily(
            "pallas_agent_health_status",
            "Health of the agent: 1 ok, 0.5 degraded, 0 error.",
            labels=["agent"],
        )
        states = GaugeMetricFamily(
            "pallas_worker_state",
            "1 for the state in which the agent's worker is.",
            labels=["agent", "state"],
        )
        ports, healths = self._fleet.ports, self._fleet.health
        for name, agent in dict(self._fleet.agents).items():
            if name not in ports or name not in healths:  # a reload is under way beside this thread
                continue
            info.add_metric([name, str(ports[name])], 1)
            health.add_metric([name], HEALTH_VALUES[healths[name]])
            for state in State:
                states.add_metric([name, str(state)], float(agent.state is state))
        yield from (info, health, states)


class WorkerProcessCollector(Collector):
    """Memory, CPU time, descriptors and start time of every live worker, by agent."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._processes: dict[int, psutil.Process] = {}

    def collect(self) -> Iterator[Metric]:
        """`pallas_worker_resident_memory_bytes`, `…_cpu_seconds_total`, `…_open_fds`, `…_start_time_seconds`."""
        memory = GaugeMetricFamily(
            "pallas_worker_resident_memory_bytes", "Resident memory of the worker in bytes.", labels=["agent"]
        )
        cpu = CounterMetricFamily(
            "pallas_worker_cpu_seconds",
            "User and system CPU time of the worker process in seconds.",
            labels=["agent"],
        )
        fds = GaugeMetricFamily("pallas_worker_open_fds", "Open descriptors of the worker.", labels=["agent"])
        start = GaugeMetricFamily(
            "pallas_worker_start_time_seconds",
            "Start of the worker in seconds since the epoch.",
            labels=["agent"],
        )
        pids = self._fleet.pids
        self._processes = {
            pid: process for pid in pids.values() if (process := self._process(pid)) is not None
        }
        for name, pid in pids.items():
            if (process := self._processes.get(pid)) is None:
                continue
            try:
                with process.oneshot():
                    times = process.cpu_times()
                    sample = (process.memory_info().rss, times.user + times.system, process.num_fds())
                    created = process.create_time()
            except psutil.Error:
                continue
            memory.add_metric([name], sample[0])
            cpu.add_metric([name], sample[1])
            fds.add_metric([name], sample[2])
            start.add_metric([name], created)
        yield from (memory, cpu, fds, start)

    def _process(self, pid: int) -> psutil.Process | None:
        try:
            return self._processes.get(pid) or psutil.Process(pid)
        except psutil.Error:
            return None

    def resident_memory(self, pid: int) -> int | None:
        """Resident memory of one worker in bytes, None if it is gone."""
        try:
            process = self._processes.get(pid) or psutil.Process(pid)
            return int(process.memory_info().rss)
        except psutil.Error:
            return None


class Metrics:
    """The supervisor's registry.

    Args:
        fleet: the facts to publish.
        merged: collects what the workers wrote.
    """

    def __init__(self, fleet: Fleet, merged: Collector) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self.workers = WorkerProcessCollector(fleet)
        self._fleet = fleet
        for collector in (FleetCollector(fleet), self.workers, merged):
            self.registry.register(collector)
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self._restarts = Counter(
            "pallas_worker_restarts_total",
            "Starts of a worker after its first one, by reason.",
            ["agent", "reason"],
            registry=self.registry,
        )
        self._starts = Histogram(
            "pallas_worker_start_seconds",
            "Seconds from spawn to ready.",
            ["agent"],
            buckets=START_BUCKETS,
            registry=self.registry,
        )

    def count_restart(self, agent: str, reason: str) -> None:
        """A worker is started again."""
        self._restarts.labels(agent, reason).inc()

    def observe_start(self, agent: str, seconds: float) -> None:
        """A worker has become ready."""
        self._starts.labels(agent).observe(seconds)

    def forget(self, agent: str) -> None:
        """Drop the series of an agent that has been removed."""
        self._restarts.remove_by_labels({"agent": agent})
        self._starts.remove_by_labels({"agent": agent})

    def render(self, accept: str, names: Sequence[str] = ()) -> tuple[bytes, str]:
        """All series in the format that the Accept header asks for, and its content type."""
        encode, content_type = choose_encoder(accept)
        registry = self.registry.restricted_registry(names) if names else self.registry
        return encode(registry), content_type
