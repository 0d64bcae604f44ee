"""A scrape of 5 to 200 agents with four downstreams each: against prometheus_client's own merge, and after restarts.

Processes that only write metrics stand for workers. In each run all ways read the same files in turn: as they lie
there, and with every agent at work in between. Figures are medians over the runs of the median of a run.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.parser import text_string_to_metric_families

from pallas_common.http.answers import compressed
from pallas_common.metrics.exposition import TEXT, page
from pallas_supervisor.telemetry.store import LEFT_OUT, MetricsStore
from pallas_worker.telemetry import metrics
from support.data.exposition import MmapedDict, merge

if TYPE_CHECKING:
    from collections.abc import Callable

SERVERS = ("argos", "mnemosyne", "hermes", "daedalus")
OPERATIONS = ("tool", "prompt", "resource")
KINDS_OF_SCRAPE = ("nothing new", "all at work")
KINDS = ("input", "output", "cache_read", "cache_write", "cache_hit", "reasoning")


@click.command()
@click.option("--sizes", default="5,20,50,200", show_default=True, help="Numbers of agents.")
@click.option("--runs", default=5, show_default=True, help="Runs of each size.")
@click.option("--scrapes", default=10, show_default=True, help="Scrapes of each kind in a run.")
@click.option(
    "--restarts", default=100, show_default=True, help="Restarts of every agent, at --restarted agents."
)
@click.option("--restarted", default=50, show_default=True, help="Agents that are restarted; 0 for none.")
def main(sizes: str, runs: int, scrapes: int, restarts: int, restarted: int) -> None:
    """Measure and print."""
    rows = []
    for size in map(int, sizes.split(",")):
        found: dict[str, list[float]] = defaultdict(list)
        with contextlib.ExitStack() as stack:
            click.echo(f"{size} agents", err=True)
            subjects = {"": Subject(stack, size, restarts=0)}
            if size == restarted and restarts:
                subjects[f", after {restarts} restarts"] = Subject(stack, size, restarts)
            for _ in range(runs):
                measure(subjects, scrapes, found)
        rows.append((size, {name: statistics.median(values) for name, values in found.items()}))
    for size, row in rows:
        click.echo(f"\n{size} agents:")
        for name, value in row.items():
            click.echo(f"  {value:10.2f}  {name}")


def measure(subjects: dict[str, Subject], scrapes: int, found: dict[str, list[float]]) -> None:
    """One run: of a fleet as it started and, beside it, of one whose agents were all restarted."""
    times: dict[str, list[float]] = defaultdict(list)
    for _ in range(scrapes):
        for when, subject in subjects.items():
            subject.scrape(times, when)
    medians = {name: statistics.median(values) * 1000 for name, values in times.items()}
    for name, value in medians.items():
        found[name].append(value)
    for when, subject in subjects.items():
        found[f"series{when}"].append(len(parsed(subject.theirs())))
        found[f"MiB in files{when}"].append(subject.size() / 2**20)
        for kind in KINDS_OF_SCRAPE:
            for what in ("merge", "merge and text"):
                ratio = medians[f"prometheus_client, {what}, ms{when}"] / medians[f"ours, {kind}, ms{when}"]
                found[f"prometheus_client's {what} ÷ ours, {kind}{when}"].append(ratio)
            found[f"ours, {kind}: ÷ without restarts{when}"].append(
                medians[f"ours, {kind}, ms{when}"] / medians[f"ours, {kind}, ms"]
            )
        found[f"bytes in files: ÷ without restarts{when}"].append(subject.size() / subjects[""].size())


class Subject:
    """A directory that workers have written, and the two ways to read it."""

    def __init__(self, stack: contextlib.ExitStack, size: int, restarts: int) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="pallas-bench-", dir="/dev/shm"))
        stack.callback(shutil.rmtree, self._directory)
        self._store = MetricsStore(self._directory)
        agents = [f"agent{number}" for number in range(size)]
        for generation in range(restarts + 1):
            for agent in agents:
                self._store.process_gone(agent, generation - 1)
                live(self._store, agent, generation, record if generation in (0, restarts) else record_a_call)
        self._work = Work(self._directory)
        self._registry = CollectorRegistry()
        MultiProcessCollector(self._registry, str(self._directory))  # type: ignore[no-untyped-call]  # its library has no types
        if parsed(self.ours()) != parsed(self.theirs()):
            raise SystemExit("the two do not say the same")

    def ours(self) -> bytes:
        """The page as the supervisor makes it."""
        return page(self._store.families(), TEXT)

    def theirs(self) -> bytes:
        """The page as prometheus_client makes it."""
        return generate_latest(self._registry)

    def scrape(self, times: dict[str, list[float]], when: str) -> None:
        """One scrape of each kind, into `times` in seconds."""
        files = [str(path) for path in self._directory.glob("*.db")]
        taken(times[f"prometheus_client, merge, ms{when}"], lambda: merge(files))
        taken(times[f"prometheus_client, merge and text, ms{when}"], self.theirs)
        taken(times[f"ours, nothing new, ms{when}"], self.ours)
        self._work.do()
        body = taken(times[f"ours, all at work, ms{when}"], self.ours)
        taken(times[f"gzip, ms{when}"], lambda: compressed(body))

    def size(self) -> int:
        """Bytes on the disk."""
        return sum(path.stat().st_blocks * 512 for path in self._directory.iterdir())


def live(store: MetricsStore, agent: str, generation: int, work: Callable[[str], None]) -> None:
    """A worker's life in a process of its own."""
    slot = store.slot(agent, generation)
    if (pid := os.fork()) == 0:
        status = 1
        try:
            metrics.open_metrics(str(store.directory), slot)
            work(agent)
            status = 0
        finally:
            os._exit(status)
    if os.waitpid(pid, 0)[1] != 0:
        raise SystemExit("a writer failed")


def record_a_call(agent: str) -> None:
    """What a worker has done that is killed soon."""
    metrics.observe_send_message(agent, "ok", 0.4)
    metrics.set_calls(agent, 0, 0)


def record(agent: str) -> None:
    """Every series that a worker with four downstreams can have."""
    for outcome in ("ok", "error"):
        metrics.observe_send_message(agent, outcome, 1.7)
        for server in SERVERS:
            for operation in OPERATIONS:
                metrics.observe_tool_call(agent, server, operation, outcome, 0.21)
    metrics.count_llm_turn(agent, "gpt-5")
    for kind in KINDS:
        metrics.count_llm_tokens(agent, "gpt-5", kind, 123)  # type: ignore[arg-type]  # these words are kinds
    for server in SERVERS:
        metrics.set_downstream_up(agent, server, True)
    metrics.set_llm_provider_up("openai", True)
    metrics.set_calls(agent, 1, 0)


class Work:
    """Lets every agent count a little in each of its files."""

    def __init__(self, directory: Path) -> None:
        self._files = [MmapedDict(str(path)) for path in directory.glob("*.db")]
        self._keys = [list(file.read_all_values())[:8] for file in self._files]
        self._step = 0

    def do(self) -> None:
        """One step."""
        self._step += 1
        for file, keys in zip(self._files, self._keys, strict=True):
            for key, _, timestamp in keys:
                file.write_value(key, float(self._step), timestamp)


def taken[T](into: list[float], do: Callable[[], T]) -> T:
    """What it gives; the seconds that it takes go into the list."""
    begun = time.perf_counter()
    result = do()
    into.append(time.perf_counter() - begun)
    return result


def parsed(body: bytes) -> dict[Any, float]:
    """Every sample, but for the count of those that are left out, which prometheus_client does not have."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
        if family.name != LEFT_OUT
    }


if __name__ == "__main__":
    main()
