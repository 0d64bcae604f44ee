"""A scrape of 5, 20, 50, 200 agents with 4 downstreams each: against prometheus_client's own, and after restarts.

Processes that only write metrics stand for workers. Each size is written anew for every run; in each run the two
ways read the same files in turn, once as they lie there and once with every agent at work in between. Figures are
medians over the runs of the median over the scrapes of a run.
"""

from __future__ import annotations

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
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.parser import text_string_to_metric_families

from pallas_registry.exposition import TEXT, compressed, page
from pallas_supervisor.slots import Slots
from pallas_worker import metrics

if TYPE_CHECKING:
    from collections.abc import Callable

SERVERS = ("argos", "mnemosyne", "hermes", "daedalus")
OPERATIONS = ("tool", "prompt", "resource")
KINDS = ("input", "output", "cache_read", "cache_write", "cache_hit", "reasoning")


@click.command()
@click.option("--sizes", default="5,20,50,200", show_default=True, help="Numbers of agents.")
@click.option("--runs", default=5, show_default=True, help="Runs of each size.")
@click.option("--scrapes", default=20, show_default=True, help="Scrapes of each kind in a run.")
@click.option(
    "--restarts", default=100, show_default=True, help="Restarts of every agent, at --restarted agents."
)
@click.option("--restarted", default=50, show_default=True, help="Agents that are restarted; 0 for none.")
def main(sizes: str, runs: int, scrapes: int, restarts: int, restarted: int) -> None:
    """Measure and print."""
    rows = []
    for size in map(int, sizes.split(",")):
        found: dict[str, list[float]] = defaultdict(list)
        for run in range(runs):
            click.echo(f"{size} agents, run {run + 1}/{runs}", err=True)
            measure(size, scrapes, restarts if size == restarted else 0, found)
        rows.append((size, {name: statistics.median(values) for name, values in found.items()}))
    for size, row in rows:
        click.echo(f"\n{size} agents:")
        for name, value in row.items():
            click.echo(f"  {name:44} {value:10.2f}")


def measure(size: int, scrapes: int, restarts: int, found: dict[str, list[float]]) -> None:
    """One directory, from nothing to its last scrape."""
    folder = Path(tempfile.mkdtemp(prefix="pallas-bench-", dir="/dev/shm"))
    try:
        slots = Slots(folder)
        agents = [f"agent{number}" for number in range(size)]
        for agent in agents:
            live(slots, agent, generation=1)
        scrape_all(slots, scrapes, found, "")
        if restarts:
            before = directory_size(folder)
            for generation in range(2, restarts + 2):
                for agent in agents:
                    slots.process_gone(agent, generation - 1)
                    live(slots, agent, generation)
            scrape_all(slots, scrapes, found, f", after {restarts} restarts each")
            found["directory bytes, after ÷ before"].append(directory_size(folder) / before)
            for name in ("nothing new", "all at work"):
                after, first = (
                    found[f"ms ours, {name}{when}"][-1] for when in (f", after {restarts} restarts each", "")
                )
                found[f"{name}: after ÷ before"].append(after / first)
    finally:
        shutil.rmtree(folder)


def live(slots: Slots, agent: str, generation: int) -> None:
    """A worker's life in a process of its own: it records something of everything."""
    slot = slots.slot(agent, generation)
    if (pid := os.fork()) == 0:
        status = 1
        try:
            metrics.open_metrics(str(slots.directory), slot)
            record(agent)
            status = 0
        finally:
            os._exit(status)
    if os.waitpid(pid, 0)[1] != 0:
        raise SystemExit("a writer failed")


def record(agent: str) -> None:
    """Every series that a worker with four downstreams can have."""
    for outcome in ("ok", "error"):
        metrics.observe_send_message(agent, outcome, 1.7)  # type: ignore[arg-type]
        for server in SERVERS:
            for operation in OPERATIONS:
                metrics.observe_tool_call(agent, server, operation, outcome, 0.21)  # type: ignore[arg-type]
    metrics.count_llm_turn(agent, "gpt-5")
    for kind in KINDS:
        metrics.count_llm_tokens(agent, "gpt-5", kind, 123)  # type: ignore[arg-type]
    for server in SERVERS:
        metrics.set_downstream_up(agent, server, True)
    metrics.set_llm_provider_up("openai", True)
    metrics.set_calls(agent, 1, 0)


def scrape_all(slots: Slots, scrapes: int, found: dict[str, list[float]], when: str) -> None:
    """Scrapes of all kinds, in turn."""
    files = Work(slots.directory)
    times: dict[str, list[float]] = defaultdict(list)
    registry = CollectorRegistry()
    MultiProcessCollector(registry, str(slots.directory))  # type: ignore[no-untyped-call]

    def stock_merge() -> None:
        MultiProcessCollector.merge(map(str, slots.directory.glob("*.db")))  # type: ignore[no-untyped-call]

    def ours() -> bytes:
        return page(slots.families(), TEXT)

    body = ours()
    theirs = generate_latest(registry)
    if parsed(body) != parsed(theirs):
        raise SystemExit("the two are not equal")
    found[f"series{when}"].append(len(parsed(body)))
    found[f"files{when}"].append(len(list(slots.directory.glob("*.db"))))
    for _ in range(scrapes):
        taken(times["ms prometheus_client, merge alone"], stock_merge)
        taken(times["ms prometheus_client, merge and text"], lambda: generate_latest(registry))
        taken(times["ms ours, nothing new"], ours)
        files.work()
        taken(times["ms ours, all at work"], ours)
    taken(times["ms gzip"], lambda: compressed(body))
    for name, values in times.items():
        found[name + when].append(statistics.median(values) * 1000)
    for kind in ("nothing new", "all at work"):
        of_ours = found[f"ms ours, {kind}{when}"][-1]
        for what in ("merge alone", "merge and text"):
            theirs_ms = found[f"ms prometheus_client, {what}{when}"][-1]
            found[f"prometheus_client's {what} ÷ ours, {kind}{when}"].append(theirs_ms / of_ours)


class Work:
    """Lets every agent count a little in each of its files."""

    def __init__(self, directory: Path) -> None:
        self._files = [MmapedDict(str(path)) for path in directory.glob("*.db")]  # type: ignore[no-untyped-call]
        self._keys = [list(file.read_all_values())[:8] for file in self._files]  # type: ignore[no-untyped-call]
        self._step = 0

    def work(self) -> None:
        """One step."""
        self._step += 1
        for file, keys in zip(self._files, self._keys, strict=True):
            for key, _, timestamp in keys:
                file.write_value(key, float(self._step), timestamp)  # type: ignore[no-untyped-call]


def taken(into: list[float], do: Callable[[], object]) -> None:
    """Seconds that it takes."""
    begun = time.perf_counter()
    do()
    into.append(time.perf_counter() - begun)


def parsed(body: bytes) -> dict[Any, float]:
    """Every sample."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }


def directory_size(directory: Path) -> int:
    """Bytes on the disk."""
    return sum(path.stat().st_blocks * 512 for path in directory.iterdir())


if __name__ == "__main__":
    main()
