"""Fleets of 1, 20 and 100 agents: time until all are ready, memory, restart after SIGKILL; against exec, or a checkout.

Modes and sizes are interleaved in one run, so that the machine's moods hit all alike; figures are medians. Prints a
table for docs/performance.md. Another version is measured with this interpreter and its libraries:

    git worktree add ../pallas-before COMMIT
    scripts/bench fleet --against ../pallas-before
"""

from __future__ import annotations

import os
import shutil
import signal
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import httpx
import psutil

from support.fleet.deployment import Deployment, make_deployment
from support.fleet.fleet import Fleet
from support.ports import free_ports

ZYGOTE, EXEC, BEFORE = "zygote", "exec", "version before"
PACKAGES = ("common", "registry", "supervisor", "worker")
POLL = 0.002


@dataclass
class Samples:
    """What one mode and size showed, one value a run."""

    ready: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    restart: list[float] = field(default_factory=list)


@click.command()
@click.option("--sizes", default="1,20,100", show_default=True, help="Fleet sizes.")
@click.option("--runs", default=5, show_default=True, help="Runs of each mode and size.")
@click.option("--kills", default=5, show_default=True, help="Kills in each run.")
@click.option(
    "--against",
    type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path),
    help="Measure this checkout of another version of Pallas as well, instead of workers that are executed.",
)
def main(sizes: str, runs: int, kills: int, against: Path | None) -> None:
    """Measure and print."""
    counts = [int(size) for size in sizes.split(",")]
    other = EXEC if against is None else BEFORE
    samples = {(mode, count): Samples() for count in counts for mode in (ZYGOTE, other)}
    for run in range(runs):
        for count in counts:
            for mode in (ZYGOTE, other):
                click.echo(f"run {run + 1}/{runs}: {count} agents, {mode}", err=True)
                checkout = against if mode == BEFORE else None
                measure(mode, count, kills, samples[mode, count], checkout)
    click.echo(machine())
    click.echo(
        "\n| agents | started by | all ready s | CPU s | PSS MiB, all | PSS MiB, an agent more | restart ms |"
    )
    click.echo("|---|---|---|---|---|---|---|")
    for count in counts:
        for mode in (ZYGOTE, other):
            click.echo(row(mode, count, samples, counts))
        click.echo(ratios(count, samples[ZYGOTE, count], samples[other, count], other))


def ratios(count: int, values: Samples, others: Samples, other: str) -> str:
    """One line of the table: the figures of a zygote as parts of the other mode's."""
    pairs = (
        (values.ready, others.ready),
        (values.cpu, others.cpu),
        (values.memory, others.memory),
        (values.restart, others.restart),
    )
    ready, cpu, memory, restart = (
        f"{statistics.median(ours) / statistics.median(theirs):.2f}" for ours, theirs in pairs
    )
    return f"| {count} | {ZYGOTE} ÷ {other} | {ready} | {cpu} | {memory} | | {restart} |"


def row(mode: str, count: int, samples: dict[tuple[str, int], Samples], counts: list[int]) -> str:
    """One line of the table; the memory of one more agent is the slope against the smallest fleet."""
    values = samples[mode, count]
    memory = statistics.median(values.memory)
    slope = "–"
    if count > counts[0]:
        base = statistics.median(samples[mode, counts[0]].memory)
        slope = f"{(memory - base) / (count - counts[0]):.1f}"
    ready, cpu, restart = (statistics.median(v) for v in (values.ready, values.cpu, values.restart))
    return f"| {count} | {mode} | {ready:.2f} | {cpu:.1f} | {memory:.0f} | {slope} | {restart * 1000:.0f} |"


def measure(mode: str, count: int, kills: int, into: Samples, checkout: Path | None = None) -> None:
    """One fleet, from start to stop; of the code in `checkout`, if there is one."""
    folder = Path(tempfile.mkdtemp(prefix="pallas-bench-"))
    try:
        deployment = make_fleet(folder / "fleet", mode, count)
        env = (
            {}
            if checkout is None
            else {"PYTHONPATH": os.pathsep.join(str(checkout / name) for name in PACKAGES)}
        )
        fleet = Fleet(deployment, env=env)
        begun = time.perf_counter()
        with fleet:
            fleet.wait()
            into.ready.append(time.perf_counter() - begun)
            tree = fleet.processes()
            into.cpu.append(sum(cpu_seconds(process) for process in tree))
            into.memory.append(sum(process.memory_full_info().pss for process in tree) / 2**20)
            into.restart.append(
                statistics.median(restart_seconds(fleet, f"agent{i % count}") for i in range(kills))
            )
    finally:
        shutil.rmtree(folder)


def make_fleet(directory: Path, mode: str, count: int) -> Deployment:
    """Agents without downstream servers; one that is killed again and again counts each time as a first failure."""
    deployment = make_deployment(directory)
    extra: dict[str, Any] = {"python": sys.executable} if mode == EXEC else {}
    ports = free_ports(count + 1)
    deployment.document["registry_port"] = ports.pop()
    for number in range(count):
        deployment.add(f"agent{number}", max_failures=1000, reset_after=0.01, **extra)
        deployment.agents[f"agent{number}"]["port"] = ports[number]
    deployment.write()
    return deployment


def restart_seconds(fleet: Fleet, name: str) -> float:
    """From SIGKILL until the agent's port answers 200 again; the supervisor's own 503 does not count."""
    url = fleet.deployment.url(name).replace("/mcp", "/livez")
    pid = fleet.agent(name)["pid"]
    with httpx.Client(timeout=60) as client:
        killed = time.perf_counter()
        os.kill(pid, signal.SIGKILL)
        while True:
            try:
                if client.get(url, headers={"connection": "close"}).status_code == 200:
                    break
            except httpx.TransportError:
                pass
            time.sleep(POLL)
        seconds = time.perf_counter() - killed
    fleet.wait(name)
    return seconds


def cpu_seconds(process: psutil.Process) -> float:
    """User and system time so far."""
    times = process.cpu_times()
    return times.user + times.system


def machine() -> str:
    """The machine's size, for the caption."""
    memory = psutil.virtual_memory().total / 2**30
    python = sys.version.split()[0]
    return f"{os.process_cpu_count()} cores, {memory:.0f} GiB, Linux {os.uname().release}, Python {python}"


if __name__ == "__main__":
    main()
