"""Thousands of turns of a model that says anything, on each kind of database, while the worker is killed in between.

After some such turns of each thread a plain one has to be answered. What should never be (a 500, a turn without an end,
a thread that is refused, a row that stays pending) is printed, and the exit status is 1.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from pathlib import Path

import click

from benchmarks.fleet import machine
from support.gateway.postgres import postgres_for
from support.gateway.turns.hostile import hostile_turns


@click.command()
@click.option("--turns", default=5000, show_default=True, help="On each kind of database.")
@click.option("--kills", default=10, show_default=True, help="Of the worker, on each kind of database.")
@click.option("--people", default=4, show_default=True, help="Threads with a turn under way at a time.")
@click.option("--seed", default=27, show_default=True, help="Of what the model says.")
@click.option(
    "--database", type=click.Choice(["sqlite", "postgresql"]), multiple=True, help="This one alone."
)
def main(turns: int, kills: int, people: int, seed: int, database: tuple[str, ...]) -> None:
    """Talk, kill, look, and print."""
    print(f"{machine()}; {people} threads at a time\n")
    wrong = 0
    for name in database or ("sqlite", "postgresql"):
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            postgres = postgres_for(name)
            running = stack.enter_context(
                hostile_turns(Path(folder, "fleet"), people=people, seed=seed, postgres=postgres)
            )
            began = time.monotonic()
            seen = running.talk(turns, kills=kills)
            seconds = time.monotonic() - began
        ends = ", ".join(f"{how} {count}" for how, count in seen.ends.most_common())
        print(
            f"{name}: {seen.turns} turns in {len(seen.threads)} threads in {seconds:.0f} s, {kills} kills: {ends}"
        )
        for each in seen.wrong:
            print(f"  wrong: {each}")
        wrong += len(seen.wrong)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
