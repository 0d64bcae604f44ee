"""Restarts under load: requests that fail, and latency, during rolling restarts of all agents and after SIGKILL."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from pathlib import Path

import click

from benchmarks.fleet import machine
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.load.load import Load

NAMES = ("library", "research", "jarvis", "harper")


@click.command()
@click.option("--requests", default=20_000, show_default=True, help="Requests during the rolling restarts.")
@click.option("--clients", default=50, show_default=True, help="Clients at a time.")
@click.option(
    "--kills", default=5, show_default=True, help="Workers killed, each under load, in another fleet state."
)
def main(requests: int, clients: int, kills: int) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory(prefix="pallas-bench-") as folder:
        deployment = make_deployment(Path(folder) / "fleet")
        for name, needs in zip(NAMES, ((), *((name,) for name in NAMES)), strict=False):
            deployment.add(name, depends_on=needs, reset_after=1, max_failures=100)
        with Fleet(deployment) as fleet:
            fleet.wait()
            click.echo(f"{machine()}\n")
            asyncio.run(_roll(fleet, requests, clients))
            asyncio.run(_kill(fleet, clients, kills))


async def _roll(fleet: Fleet, requests: int, clients: int) -> None:
    load = Load([fleet.deployment.agents[name]["port"] for name in NAMES], clients=clients)
    loading = asyncio.create_task(load.run(requests))
    rolls = 0
    while not loading.done():
        restarted = await asyncio.to_thread(fleet.ctl, "restart", "--all", "--timeout", "80")
        if restarted.returncode:
            raise click.ClickException(restarted.stderr)
        rolls += 1
    outcome = await loading
    click.echo(
        f"{rolls} rolling restarts of {len(NAMES)} agents, {clients} clients: {outcome.total} answered, "
        f"{len(outcome.refused)} refused, {len(outcome.lost)} lost, {len(outcome.wrong)} wrong"
    )


async def _kill(fleet: Fleet, clients: int, kills: int) -> None:
    for number in range(kills):
        name = NAMES[number % len(NAMES)]
        load = Load([fleet.deployment.agents[name]["port"]], clients=clients)
        loading = asyncio.create_task(load.run(1_000_000))
        await load.until(300)
        os.kill(fleet.agent(name)["pid"], signal.SIGKILL)
        await load.until(load.outcome.total + 300)
        load.stop()
        outcome = await loading
        click.echo(
            f"SIGKILL of {name}, {clients} clients: {outcome.total} answered, {len(outcome.refused)} refused, "
            f"{len(outcome.lost)} lost, {len(outcome.wrong)} wrong"
        )
        await asyncio.to_thread(fleet.wait)
        await asyncio.sleep(1.5)  # until its failures are forgotten: the next kill is a first one again


if __name__ == "__main__":
    main()
