"""Attacks each input of a supervisor with hostile bytes for as long as is wanted; checks everything after each round.

Ends with 1 if anything did not hold, and says how to see it again. A stall is a turn of the event loop of more than
100 ms, without the time in which the process waited for a processor.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click

from support.faults.fuzz.targets import TARGETS
from support.faults.fuzz.watched_fleet import WatchedFleet


@click.command()
@click.option("--minutes", default=10.0, show_default=True, help="For each input.")
@click.option("--seed", default=1, show_default=True, help="Which rounds.")
@click.option("--first", default=0, show_default=True, help="The first round's number.")
@click.option("--only", help=f"Inputs, separated by commas [default: {','.join(TARGETS)}].")
def main(minutes: float, seed: int, first: int, only: str | None) -> None:
    """Attack, check, and print a table."""
    chosen = list(TARGETS) if only is None else only.split(",")
    if unknown := set(chosen) - TARGETS.keys():
        raise click.UsageError(f"no such input: {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    failed = False
    click.echo(
        "| input | rounds | minutes | stalls | longest turn, ms | what did not hold |\n|---|---|---|---|---|---|"
    )
    for name in chosen:
        rounds, problem, stalls, seconds = _attack(name, minutes * 60, seed, first)
        longest = max((stall["seconds"] for stall in stalls), default=0.0)
        told = f"seed {seed}, round {first + rounds}: {problem}" if problem else "nothing"
        shown = f"{longest * 1000:.0f}" if stalls else "below 100"
        click.echo(f"| {name} | {rounds} | {seconds / 60:.1f} | {len(stalls)} | {shown} | {told} |")
        for stall in stalls:
            click.echo(
                f"{name}: a turn of {stall['seconds']:.3f} s, {stall['cpu']:.3f} of CPU: {stall['slowest']}",
                err=True,
            )
        failed = failed or bool(problem or stalls)
    sys.exit(failed)


def _attack(name: str, seconds: float, seed: int, first: int) -> tuple[int, str, list[dict[str, Any]], float]:
    folder = Path(tempfile.mkdtemp(prefix="pallas-fuzz-"))
    rounds, problem = 0, ""
    try:
        with WatchedFleet(folder / "watched", stall_matters=False) as fleet:
            begun = time.monotonic()
            while time.monotonic() - begun < seconds and not problem:
                rng = random.Random(f"{seed}/{name}/{first + rounds}")
                try:
                    TARGETS[name](fleet, rng)
                    fleet.check()
                    rounds += 1
                except Exception as error:  # noqa: BLE001 - whatever it is, it is the result
                    problem = " ".join(f"{type(error).__name__}: {error}".split())
            return rounds, problem, fleet.stalls, time.monotonic() - begun
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
