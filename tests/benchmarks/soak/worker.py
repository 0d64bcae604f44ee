"""Thousands of calls of one worker with three downstream servers: does anything grow?

One call in ten is left by its caller, one is refused and one is cut off by a downstream server. Memory is looked at
every so many calls; a line is fitted to what comes after the first 500. Prints what docs/performance.md says; exit
status 1 if something grew.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import click
import psutil

from benchmarks.fleet import machine
from support.load.soak import Soak, run_soak
from support.worker.census import ASK_PASSTHROUGH, Census, settle

SLACK = 12
"""Descriptors, tasks and the like that differ from moment to moment, however few calls there were."""
BOUND = 0.5
"""MiB a thousand calls, below which a slope is flat whatever its standard error."""


class Sample(NamedTuple):
    """What there is after so many calls."""

    calls: int
    rss: float
    uss: float
    census: Census
    sessions: int


class Line(NamedTuple):
    """A fitted line's slope and its standard error, a thousand calls."""

    slope: float
    error: float

    @property
    def flat(self) -> bool:
        """Whether the slope is within noise."""
        return self.slope <= max(2 * self.error, BOUND)


@click.command()
@click.option("--calls", default=5000, show_default=True, help="Calls in all.")
@click.option("--first", default=500, show_default=True, help="Calls before the line begins.")
@click.option("--every", default=250, show_default=True, help="Calls between two looks.")
def main(calls: int, first: int, every: int) -> None:
    """Call, look, print."""
    with tempfile.TemporaryDirectory(prefix="pallas-soak-") as folder, run_soak(Path(folder)) as soak:
        samples = []
        begun = time.perf_counter()
        for done in range(0, calls, every):
            asyncio.run(soak.calls(done, every))
            samples.append(look(soak, done + every))
            click.echo(f"{done + every} calls, {samples[-1].rss:.1f} MiB", err=True)
        seconds = time.perf_counter() - begun
        soak.worker.stop()
        left = len(soak.servers["legacy"].sessions_left)
        opened = soak.servers["legacy"].sessions_opened
    sys.exit(0 if told(samples, first, seconds, opened, left) else 1)


def look(soak: Soak, calls: int) -> Sample:
    """One sample, once no call is under way."""
    soak.forget()
    census = settle(soak.worker, ASK_PASSTHROUGH)
    memory = psutil.Process(soak.worker.process.pid).memory_full_info()
    sessions = len(soak.servers["legacy"].sessions_left)
    return Sample(calls, memory.rss / 2**20, memory.uss / 2**20, census, sessions)


def told(samples: list[Sample], first: int, seconds: float, opened: int, left: int) -> bool:
    """Print all figures; whether nothing grew."""
    click.echo(machine())
    click.echo(
        "\n| calls | RSS MiB | USS MiB | descriptors | tasks | threads | logging filters | sessions open |"
    )
    click.echo("|---|---|---|---|---|---|---|---|")
    step = max(1, len(samples) // 10)
    for sample in [samples[0], *samples[step - 1 :: step]]:
        counts = sample.census.counts
        click.echo(
            f"| {sample.calls} | {sample.rss:.1f} | {sample.uss:.1f} | {counts['descriptors']} "
            f"| {sample.census.tasks.total()} | {counts['threads']} | {counts['filters']} | {sample.sessions} |"
        )
    settled = [sample for sample in samples if sample.calls >= first]
    rss = fit([(s.calls / 1000, s.rss) for s in settled])
    uss = fit([(s.calls / 1000, s.uss) for s in settled])
    grown = settled[-1].census.more_than(settled[0].census, SLACK)
    click.echo(f"\nRSS after the first {first}: {rss.slope:+.2f} ± {rss.error:.2f} MiB a thousand calls")
    click.echo(f"USS after the first {first}: {uss.slope:+.2f} ± {uss.error:.2f} MiB a thousand calls")
    click.echo(f"grown: {grown or 'nothing'}; {samples[-1].calls / seconds:.1f} calls/s")
    click.echo(
        f"sessions of the older protocol: {opened} opened, {left} not closed (their connection was reset)"
    )
    return rss.flat and uss.flat and not grown


def fit(points: list[tuple[float, float]]) -> Line:
    """Least squares."""
    xs, ys = [x for x, _ in points], [y for _, y in points]
    slope, intercept = statistics.linear_regression(xs, ys)
    rest = sum((y - slope * x - intercept) ** 2 for x, y in points)
    spread = sum((x - statistics.fmean(xs)) ** 2 for x in xs)
    return Line(slope, (rest / max(1, len(points) - 2) / spread) ** 0.5)


if __name__ == "__main__":
    main()
