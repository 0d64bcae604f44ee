"""A thousand declared agents called at random for minutes, workers, zygote and supervisor killed among that.

Prints what became of the calls, and memory, processes and descriptors of the supervisor before and after.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import click
import psutil

from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.load.demand import Crowd, apply, ask, await_rest, declared, names, rest, sockets


@click.command()
@click.option("--agents", default=1000, show_default=True, help="Declared agents.")
@click.option(
    "--kills", default=60, show_default=True, help="Kills, each after as many calls as --between says."
)
@click.option("--between", default=20, show_default=True, help="Calls that are answered between two kills.")
@click.option("--idle-timeout", default=3.0, show_default=True, help="Seconds after which one ends.")
@click.option("--callers", default=4, show_default=True, help="Calls at a time.")
@click.option("--seed", default=13, show_default=True, help="Of what is drawn.")
def main(agents: int, kills: int, between: int, idle_timeout: float, callers: int, seed: int) -> None:
    """Call, kill and print."""
    with tempfile.TemporaryDirectory() as folder, Fleet(make_deployment(Path(folder, "fleet"))) as fleet:
        print(dict(apply(fleet, declared(agents, idle_timeout))))
        await_rest(fleet)
        fleet.spare()
        _print("declared, none has run", fleet)
        paths = sockets(fleet)
        for name in names(5):
            assert ask(paths[name], name, "hello") == (200, "hello")
        _print("five called in turn", fleet)
        await_rest(fleet)
        crowd = Crowd(fleet, seed)
        kinds = ("worker", "worker", "zygote") * (kills // 3)
        crowd.run(kinds, between=between, callers=callers, pause=0.3)
        await_rest(fleet)
        fleet.spare()
        _print("called at random, workers and zygote killed, idle again", fleet)
        crowd.run(("worker", "supervisor") * (kills // 6), between=between, callers=callers, pause=0.3)
        await_rest(fleet)
        fleet.spare()
        _print("the supervisor killed as well, idle again", fleet)
        print(crowd.tally)


def _print(when: str, fleet: Fleet) -> None:
    there = rest(fleet)
    memory = psutil.Process(fleet.pid).memory_full_info()
    print(
        f"{when}: supervisor {memory.rss / 2**20:.1f} MiB resident, {memory.pss / 2**20:.1f} MiB PSS; "
        + ", ".join(f"{count} {what}" for what, count in there.most_common())
    )


if __name__ == "__main__":
    main()
