"""A long fault campaign on one fleet: at least 500 faults drawn from a seed, everything checked after each.

Ends with 1 at the first thing that does not hold, and says how to see it again. Needs root (small disks that fill up)
and a C compiler (a clock that jumps). Prints how long each kind of fault took to be mended.
"""

from __future__ import annotations

import math
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import click

from support.faults.campaign import Campaign, CampaignError
from support.faults.faults import FAULTS

MEBIBYTE = 2**20


@click.command()
@click.option("--count", default=500, show_default=True, help="Faults.")
@click.option("--seed", type=int, help="Which ones, and which choices in them [default: drawn and printed].")
@click.option("--only", help="Kinds of faults, separated by commas [default: all].")
def main(count: int, seed: int | None, only: str | None) -> None:
    """Run a campaign and print what it showed."""
    seed = int.from_bytes(os.urandom(3)) if seed is None else seed
    kinds = [fault for fault in FAULTS if only is None or fault.name in only.split(",")]
    if not kinds:
        raise click.UsageError(f"there are {', '.join(fault.name for fault in FAULTS)}")
    click.echo(f"seed {seed}, {count} faults of {len(kinds)} kinds")
    folder = Path(tempfile.mkdtemp(prefix="pallas-faults-"))
    begun = time.monotonic()
    try:
        with Campaign(folder / "campaign", seed) as campaign:
            for number, outcome in enumerate(campaign.run(kinds, count), 1):
                click.echo(f"{number:4} {outcome.fault:40} {outcome.seconds:6.2f} s", err=True)
            report(campaign, time.monotonic() - begun)
    except CampaignError as error:
        click.echo(f"failed: {error}", err=True)
        sys.exit(1)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def report(campaign: Campaign, seconds: float) -> None:
    """The table of kinds, and what held over all of them."""
    by_kind = defaultdict(list)
    for outcome in campaign.outcomes:
        by_kind[outcome.fault].append(outcome.seconds)
    click.echo("\n| fault | times | in order again after s, median | longest |\n|---|---|---|---|")
    for kind, times in sorted(by_kind.items()):
        click.echo(f"| {kind} | {len(times)} | {statistics.median(times):.2f} | {max(times):.2f} |")
    memory = [outcome.memory / MEBIBYTE for outcome in campaign.outcomes]
    fifth = math.ceil(len(memory) / 5)
    fifths = [statistics.median(memory[begin : begin + fifth]) for begin in range(0, len(memory), fifth)]
    total = campaign.calls.total
    click.echo(
        f"\n{len(campaign.outcomes)} faults in {seconds:.0f} s, nothing left over after any of them.\n"
        f"Calls: {total['ok']} answered, {total['error']} answered with an error, {total['unknown']} broken off, "
        f"{total['refused']} told to come again; every one counted.\n"
        f"Log: {campaign.log.lines} lines, all of them parse.\n"
        f"Control API: {campaign.control.asked} questions, slowest answer {campaign.control.slowest * 1000:.0f} ms.\n"
        f"Supervisor's memory (PSS) over each fifth: {', '.join(f'{size:.1f}' for size in fifths)} MiB; "
        f"{max(memory):.1f} MiB at most."
    )


if __name__ == "__main__":
    main()
