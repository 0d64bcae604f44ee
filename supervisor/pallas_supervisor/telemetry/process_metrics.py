"""Memory, CPU time, descriptors and start times of the workers' processes and of the zygote, read from the system.

Knows psutil and process IDs; a process that is gone meanwhile is left out. Proportional memory costs too much here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import psutil
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator


class Reading(NamedTuple):
    """One look at one process."""

    memory: int
    """Resident, in bytes."""
    cpu: float
    """User and system time so far in seconds."""
    descriptors: int
    started: float
    """Seconds since the epoch."""


class WorkerProcess(NamedTuple):
    """A live worker."""

    agent: str
    pid: int
    begun: float
    """When it was started as this agent's worker, in seconds since the epoch; its process may be older."""


class ProcessUse(NamedTuple):
    """What the live processes of one agent use together."""

    memory: int
    """Resident, in bytes."""
    cpu: float
    """User and system time in seconds, that of processes which have ended included."""
    descriptors: int
    started: float
    """Of the newest, in seconds since the epoch."""


class Processes:
    """Looks at processes, and keeps what makes the next look cheap."""

    def __init__(self) -> None:
        self._kept: dict[int, psutil.Process] = {}

    def read(self, pid: int) -> Reading | None:
        """Look at one process; None if it is gone, or cannot be looked at."""
        try:
            process = self._process(pid)
            with process.oneshot():
                times = process.cpu_times()
                return Reading(
                    process.memory_info().rss,
                    times.user + times.system,
                    process.num_fds(),
                    process.create_time(),
                )
        except (psutil.Error, OSError):  # gone, or no descriptor is left to look at it
            self._kept.pop(pid, None)
            return None

    def resident_memory(self, pid: int) -> int | None:
        """Resident memory of one process in bytes, None if it is gone."""
        try:
            return int((self._kept.get(pid) or psutil.Process(pid)).memory_info().rss)
        except (psutil.Error, OSError):
            return None

    def keep(self, pids: Collection[int]) -> None:
        """Forget all other processes, whose numbers may be given to others."""
        for pid in self._kept.keys() - set(pids):
            self._kept.pop(pid, None)

    def _process(self, pid: int) -> psutil.Process:
        kept = self._kept.get(pid)
        if kept is None:
            kept = self._kept[pid] = psutil.Process(pid)
        return kept


@dataclass(slots=True)
class _Spent:
    """CPU seconds of an agent's processes: of those that are gone, and of each that was there at the last look."""

    gone: float
    live: dict[int, float]

    def add(self, live: dict[int, float]) -> float:
        """The sum, which no process's end makes smaller; what it spent after the last look is not in it."""
        self.gone += sum(cpu for pid, cpu in self.live.items() if live.get(pid, -1.0) < cpu)
        self.live = live
        # Times come in hundredths; sums of them in another order differ in the last bit, and a counter may not go back.
        return round(self.gone + sum(live.values()), 3)


class WorkerProcessCollector(Collector):
    """The live processes of every agent: one, or two while one takes over from another.

    Args:
        workers: all of them.
        is_idle: whether an agent is idle: nothing is said of it until it has a process again.
    """

    def __init__(
        self,
        workers: Callable[[], Iterable[WorkerProcess]],
        is_idle: Callable[[str], bool] = lambda _name: False,
    ) -> None:
        self._workers = workers
        self._is_idle = is_idle
        self._processes = Processes()
        self._spent: dict[str, _Spent] = {}

    def collect(self) -> Iterator[Metric]:
        """`pallas_worker_resident_memory_bytes`, `…_cpu_seconds_total`, `…_open_fds`, `…_start_time_seconds`."""
        families = memory, cpu, fds, start = (
            GaugeMetricFamily(
                "pallas_worker_resident_memory_bytes",
                "Resident memory of the agent's worker in bytes, pages shared with others included.",
                labels=["agent"],
            ),
            CounterMetricFamily(
                "pallas_worker_cpu_seconds",
                "User and system CPU time of the agent's workers in seconds, those that ended included.",
                labels=["agent"],
            ),
            GaugeMetricFamily(
                "pallas_worker_open_fds", "Open file descriptors of the agent's worker.", labels=["agent"]
            ),
            GaugeMetricFamily(
                "pallas_worker_start_time_seconds",
                "Start of the agent's newest worker in seconds since the epoch.",
                labels=["agent"],
            ),
        )
        for name, use in self.look().items():
            if use.memory:  # of one without a process only the time is left
                memory.add_metric([name], use.memory)
                fds.add_metric([name], use.descriptors)
                start.add_metric([name], use.started)
            if use.memory or not self._is_idle(name):
                cpu.add_metric([name], use.cpu)
        yield from families

    def look(self) -> dict[str, ProcessUse]:
        """What every agent uses that has or had a process; of one without a process all but the time is 0.

        For any thread, one at a time.
        """
        readings: dict[str, dict[int, Reading]] = {}
        workers = list(self._workers())
        self._processes.keep([worker.pid for worker in workers])
        for name, pid, begun in workers:
            if (reading := self._processes.read(pid)) is not None:
                readings.setdefault(name, {})[pid] = reading._replace(started=begun)
        found = {}
        for name in self._spent.keys() | readings.keys():
            of_agent = readings.get(name, {})
            live = {pid: reading.cpu for pid, reading in of_agent.items()}
            found[name] = ProcessUse(
                memory=sum(reading.memory for reading in of_agent.values()),
                cpu=self._spent.setdefault(name, _Spent(0.0, {})).add(live),
                descriptors=sum(reading.descriptors for reading in of_agent.values()),
                started=max((reading.started for reading in of_agent.values()), default=0.0),
            )
        return found

    def resident_memory(self, pid: int) -> int | None:
        """Resident memory of one worker in bytes, None if it is gone."""
        return self._processes.resident_memory(pid)

    def forget(self, agent: str) -> None:
        """Drop the CPU time of an agent that has been removed."""
        self._spent.pop(agent, None)


class ZygoteCollector(Collector):
    """The process that workers are forked from, while there is one.

    Args:
        pid: its process ID, None without one.
    """

    def __init__(self, pid: Callable[[], int | None]) -> None:
        self._pid = pid
        self._processes = Processes()
        self._spent = _Spent(0.0, {})

    def collect(self) -> Iterator[Metric]:
        """`pallas_zygote_resident_memory_bytes`, `…_cpu_seconds_total`, `…_open_fds`, `…_start_time_seconds`."""
        pid = self._pid()
        reading = None if pid is None else self._processes.read(pid)
        self._processes.keep([] if pid is None else [pid])
        if pid is None or reading is None:
            return
        yield GaugeMetricFamily(
            "pallas_zygote_resident_memory_bytes",
            "Resident memory in bytes of the process that workers are forked from.",
            value=reading.memory,
        )
        yield CounterMetricFamily(
            "pallas_zygote_cpu_seconds",
            "User and system CPU time in seconds of the process that workers are forked from.",
            value=self._spent.add({pid: reading.cpu}),
        )
        yield GaugeMetricFamily(
            "pallas_zygote_open_fds",
            "Open file descriptors of the process that workers are forked from.",
            value=reading.descriptors,
        )
        yield GaugeMetricFamily(
            "pallas_zygote_start_time_seconds",
            "Start of the process that workers are forked from in seconds since the epoch.",
            value=reading.started,
        )
