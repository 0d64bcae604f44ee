"""The supervisor itself: how soon it notices a death, what a restart is made of, what it costs when nothing happens.

Kills workers of one fleet in turn, each time waiting for the next to be ready, and takes the stages of every restart
from the log's own times. Then starts a larger fleet and leaves it alone.
"""

from __future__ import annotations

import math
import os
import shutil
import signal
import tempfile
import time
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
import httpx

from benchmarks.fleet import machine, make_fleet
from support.fleet.fleet import Fleet
from support.fleet.process_tree import await_end, cpu_nanoseconds, proportional_memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from support.fleet.fleet import LogStream, Record

PAUSE = 0.5
"""Seconds between two kills: what is measured is a death in a fleet at rest."""

LOOK_INTERVAL = 0.005
"""Seconds between two looks at a port: the supervisor answers meanwhile, and has other things to do."""

STAGES = ("ended", "noticed", "reaped", "begun", "importing", "creating", "serving", "answers", "ready")
"""What a restart passes through; each is measured from the kill. Ended is what the kernel tells everybody alike."""


@click.command()
@click.option("--agents", default=20, show_default=True, help="Agents of the fleet whose workers are killed.")
@click.option("--kills", default=200, show_default=True, help="How many, in turn.")
@click.option("--idle-agents", default=50, show_default=True, help="Agents of the fleet that is left alone.")
@click.option("--idle-seconds", default=60.0, show_default=True, help="For so long.")
def main(agents: int, kills: int, idle_agents: int, idle_seconds: float) -> None:
    """Measure and print."""
    click.echo(machine())
    if kills:
        show_restarts(agents, kills)
    if idle_agents:
        show_idleness(idle_agents, idle_seconds)


# --- restarts ---------------------------------------------------------------------------------------------


def show_restarts(agents: int, kills: int) -> None:
    with running(agents, {"PALLAS_LOG_LEVEL": "DEBUG"}) as fleet:
        restarts = [restart(fleet, f"agent{number % agents}") for number in range(kills)]
    click.echo(
        f"\nSIGKILL of a worker, {agents} agents running, {kills} kills; milliseconds from the kill:\n"
    )
    click.echo("| until | p50 | p90 | p99 | longest |\n|---|---|---|---|---|")
    for stage in STAGES:
        show_quantiles(stage, [seconds[stage] for seconds in restarts])
    show_quantiles("noticed after ended", [seconds["noticed"] - seconds["ended"] for seconds in restarts])


def show_quantiles(title: str, seconds: list[float]) -> None:
    times = sorted(1000 * moment for moment in seconds)
    figures = [quantile(times, q) for q in (0.5, 0.9, 0.99, 1.0)]
    click.echo(f"| {title} | " + " | ".join(f"{figure:.1f}" for figure in figures) + " |")


def restart(fleet: Fleet, name: str) -> dict[str, float]:
    """Kill the worker; the seconds from then until it had come to each stage."""
    time.sleep(PAUSE)
    url = fleet.deployment.url(name).replace("/mcp", "/livez")
    before = fleet.agent(name)
    with fleet.follow() as log, httpx.Client(timeout=60) as client:
        killed = time.time()
        os.kill(before["pid"], signal.SIGKILL)
        await_end(before["pid"], 60)
        ended = time.time()
        while not answers(client, url):
            time.sleep(LOOK_INTERVAL)  # refused, or told to come again
        answered = time.time()
        stages = stages_of(log, name, before["generation"])
    moments = {**stages, "ended": ended, "answers": answered}
    return {stage: moments[stage] - killed for stage in STAGES}


def answers(client: httpx.Client, url: str) -> bool:
    """Whether a worker serves; while one is starting the connection waits for it."""
    try:
        return client.get(url, headers={"connection": "close"}).status_code == 200
    except httpx.TransportError:
        return False


def stages_of(log: LogStream, name: str, generation: int) -> dict[str, float]:
    """When the worker after `generation` had come how far, on the wall clock."""

    def moment(**wanted: object) -> float:
        def matches(record: Record) -> bool:
            if record.get("agent") != name or not str(record["logger"]).startswith("pallas.supervisor"):
                return False
            return all(record.get(key) == value for key, value in wanted.items())

        return datetime.fromisoformat(log.until(matches)["time"]).timestamp()

    new = generation + 1
    return {
        "noticed": moment(state="killing", generation=generation),
        "reaped": moment(state="backoff", generation=generation),
        "begun": moment(state="starting", generation=new),
        **{stage: moment(message=f"{name}: {stage}") for stage in ("importing", "creating", "serving")},
        "ready": moment(state="ready", generation=new),
    }


# --- idleness ---------------------------------------------------------------------------------------------


def show_idleness(agents: int, seconds: float) -> None:
    with running(agents, {}) as fleet:
        time.sleep(10.0)  # for what follows a start: first probes, first beats
        memory = proportional_memory(fleet.pid)
        cpu, begun = cpu_nanoseconds(fleet.pid), time.monotonic()
        time.sleep(seconds)
        share = (cpu_nanoseconds(fleet.pid) - cpu) / 1e9 / (time.monotonic() - begun)
        later = proportional_memory(fleet.pid)
    click.echo(
        f"\nThe supervisor of {agents} idle agents, over {seconds:.0f} s: {share:.2%} of a core; "
        f"PSS {memory / 2**20:.1f} MiB, {later / 2**20:.1f} MiB at the end."
    )


# --- both -------------------------------------------------------------------------------------------------


@contextmanager
def running(agents: int, environment: dict[str, str]) -> Iterator[Fleet]:
    """A fleet whose agents are all ready."""
    folder = Path(tempfile.mkdtemp(prefix="pallas-bench-"))
    try:
        with Fleet(make_fleet(folder / "fleet", "zygote", agents), env=environment) as fleet:
            fleet.wait()
            yield fleet
    finally:
        shutil.rmtree(folder)


def quantile(ordered: Sequence[float], q: float) -> float:
    """The smallest value that at least this share of all does not exceed."""
    return ordered[max(math.ceil(len(ordered) * q), 1) - 1]


if __name__ == "__main__":
    main()
