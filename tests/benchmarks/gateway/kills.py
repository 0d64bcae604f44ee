"""The gateway killed again and again under load: what callers saw, and what became of what was acknowledged."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import tempfile
import time
from pathlib import Path

import click

from fakes.downstream import run_downstream
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.gateway.door import await_gateway, make_token, with_gateway
from support.gateway.load import Callers

UNLIMITED = {
    "requests_per_minute": 1_000_000,
    "concurrent": 1000,
    "tenant_requests_per_minute": 1_000_000,
    "tenant_concurrent": 1000,
}


@click.command()
@click.option("--kills", default=50, show_default=True, help="Of the gateway's process, by SIGKILL.")
@click.option("--between", default=100, show_default=True, help="Calls that are answered between two kills.")
@click.option("--callers", default=4, show_default=True, help="Calls at a time.")
@click.option("--restart/--kill", default=False, help="Ask for graceful restarts instead.")
def main(kills: int, between: int, callers: int, restart: bool) -> None:
    """Call, kill and print."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        tools = stack.enter_context(run_downstream())
        deployment = make_deployment(Path(folder, "fleet"))
        deployment.servers = {"tools": {"transport": "http", "url": tools.url}}
        deployment.add("worker", servers=("tools",))
        with_gateway(deployment, limits=UNLIMITED, max_failures=100_000)
        fleet = stack.enter_context(Fleet(deployment))
        fleet.wait()
        await_gateway(fleet)
        token = make_token(fleet, "caller", agent="worker")
        calling = Callers(
            deployment.document["gateway"]["port"], token, callers, "tools__echo", {"text": "marco"}, "marco"
        )
        away: list[float] = []
        with calling:
            for _ in range(kills):
                calling.until_more(between)
                begun = time.monotonic()
                if restart:
                    fleet.ctl("gateway", "restart")
                else:
                    _kill(fleet)
                calling.until_more(1)
                away.append(time.monotonic() - begun)
            calling.until_more(between)
        tally = calling.tally
        lines = [line for file in fleet.state.glob("audit.jsonl*") for line in file.read_text().splitlines()]
        audited = {json.loads(line).get("request_id") for line in lines}
        away.sort()
        print(
            f"{kills} {'restarts' if restart else 'kills'}: {len(tally.answered)} calls answered, "
            f"{len(tally.refused)} connections refused, {tally.broken_off} broken off, "
            f"{tally.asked_to_return} asked to return, {len(tally.wrong)} wrong; "
            f"{len(set(tally.answered) - audited)} answered and not in the audit; "
            f"until the next answer: median {away[len(away) // 2]:.2f} s, most {away[-1]:.2f} s"
        )
        print(*tally.wrong[:5], sep="\n")


def _kill(fleet: Fleet) -> None:
    before = fleet.status()["gateway"]["pid"]
    os.kill(before, signal.SIGKILL)

    def replaced() -> bool:
        gateway = fleet.status()["gateway"]
        return bool(gateway["state"] == "ready" and gateway["pid"] != before)

    fleet.await_that(replaced, "another process of the gateway serves")


if __name__ == "__main__":
    main()
