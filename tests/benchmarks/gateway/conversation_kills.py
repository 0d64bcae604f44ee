"""Worker, gateway and database killed at random moments of turns with tools, a hundred times on each kind of database.

After each kill all is looked at: what was told is in the rows, once, in order, nothing is pending, the next turn goes
on and its provider is told what is complete. The first thing that does not hold ends the run.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from benchmarks.fleet import machine
from support.gateway.postgres import postgres_for
from support.gateway.turns.killed import killing

if TYPE_CHECKING:
    from support.gateway.turns.killed import Victim

VICTIMS: dict[str, tuple[Victim, ...]] = {
    "sqlite": ("gateway", "worker"),
    "postgresql": ("gateway", "postgres", "worker", "backend"),
}
"""In turn; of SQLite the gateway is the database's process."""


@click.command()
@click.option("--kills", default=100, show_default=True, help="On each kind of database.")
@click.option("--talkers", default=5, show_default=True, help="Threads with a turn under way at a time.")
@click.option(
    "--delay", default=0.01, show_default=True, help="Seconds between two pieces of the model's text."
)
@click.option("--seed", default=15, show_default=True, help="Of the moments.")
@click.option("--database", type=click.Choice(list(VICTIMS)), multiple=True, help="This one alone.")
def main(kills: int, talkers: int, delay: float, seed: int, database: tuple[str, ...]) -> None:
    """Talk, kill, look, and print."""
    print(f"{machine()}; {talkers} threads at a time\n")
    for name in database or VICTIMS:
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            postgres = postgres_for(name)
            running = stack.enter_context(
                killing(Path(folder, "fleet"), talkers=talkers, seed=seed, postgres=postgres, delay=delay)
            )
            victims = VICTIMS[name]
            began, away = time.monotonic(), list[float]()
            for number in range(kills):
                away.append(running.once(victims[number % len(victims)]))
            running.talkers.go_on()
            running.talkers.pause()
            ended = running.check()
            seconds = time.monotonic() - began
        away.sort()
        killed = ", ".join(f"{what} {count}" for what, count in running.kills.items())
        turns = ", ".join(f"{count} {how}" for how, count in ended.most_common())
        print(
            f"{name}: {kills} kills ({killed}) in {seconds:.0f} s; turns: {turns}; all was there and in order "
            f"{away[len(away) // 2]:.1f} s after the kill (median), at most {away[-1]:.1f} s"
        )


if __name__ == "__main__":
    main()
