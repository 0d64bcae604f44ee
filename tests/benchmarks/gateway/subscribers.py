"""Many subscribers of both eras: how soon all hear of one change, and what one takes of the gateway's memory."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

import click
import psutil

from benchmarks.fleet import machine
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.gateway.door import ERAS, await_gateway, make_token, with_gateway
from support.gateway.mcp.subscriber import Subscriber

URI = "resource://agents/jarvis/state"
TOKENS = 10
AT_A_TIME = 50


@click.command()
@click.option("--subscribers", default=1000, show_default=True, help="Half of them of each era.")
@click.option("--changes", default=7, show_default=True, help="Restarts of the agent.")
def main(subscribers: int, changes: int) -> None:
    """Subscribe, restart the agent, and print."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4 * subscribers)), hard))
    limits = {
        "requests_per_minute": 1_000_000,
        "tenant_requests_per_minute": 1_000_000,
        "concurrent": 1000,
        "tenant_concurrent": 1000,
        "subscriptions_per_minute": 1_000_000,
    }
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        deployment = with_gateway(make_deployment(Path(folder, "fleet"), "jarvis"), limits=limits)
        fleet = stack.enter_context(Fleet(deployment))
        fleet.wait()
        await_gateway(fleet)
        tokens = [make_token(fleet, f"t{number}", "view:agents") for number in range(TOKENS)]
        asyncio.run(_measure(fleet, tokens, subscribers, changes))


async def _measure(fleet: Fleet, tokens: list[str], count: int, changes: int) -> None:
    load = os.getloadavg()[0]
    port = fleet.deployment.document["gateway"]["port"]
    gateway = psutil.Process(fleet.status()["gateway"]["pid"])
    before = gateway.memory_full_info()
    everybody = [
        Subscriber(port, tokens[number % TOKENS], [URI], ERAS[number % 2]) for number in range(count)
    ]
    async with contextlib.AsyncExitStack() as stack:
        for first in range(0, count, AT_A_TIME):
            some = everybody[first : first + AT_A_TIME]
            await asyncio.gather(*(stack.enter_async_context(one) for one in some))
        after = gateway.memory_full_info()
        spread: list[float] = []
        since: list[float] = []
        used: list[float] = []
        for number in range(changes):
            for one in everybody:
                one.forget()
            first_at: list[float] = []

            async def told(one: Subscriber, first_at: list[float] = first_at) -> float:
                await one.until(URI)
                first_at.append(time.monotonic())
                return first_at[-1]

            waiting = [asyncio.create_task(told(one)) for one in everybody]
            await asyncio.sleep(0)
            cpu, asked = sum(gateway.cpu_times()[:2]), time.monotonic()
            await asyncio.to_thread(fleet.post, "/v1/stop", agents=["jarvis"])
            ended = await asyncio.gather(*waiting)
            spread.append((max(ended) - min(first_at)) * 1000)
            since.append((max(ended) - asked) * 1000)
            used.append((sum(gateway.cpu_times()[:2]) - cpu) * 1000)
            print(f"change {number + 1}: all told within {spread[-1]:.0f} ms of the first", file=sys.stderr)
            await asyncio.to_thread(fleet.post, "/v1/start", agents=["jarvis"], timeout=60)
            await asyncio.to_thread(fleet.wait)
    each = (after.uss - before.uss) / count / 1024
    median = statistics.median
    print(f"{machine()}; load {load:.1f} before; medians of {changes} changes\n")
    print(
        "| subscribers | KiB each | gateway MiB before | with them | last told ms after the first | at most "
        "| last told ms after the change was asked for | gateway's CPU ms a change |"
    )
    print("|---|---|---|---|---|---|---|---|")
    print(
        f"| {count} | {each:.0f} | {before.uss / 2**20:.0f} | {after.uss / 2**20:.0f} | {median(spread):.0f} "
        f"| {max(spread):.0f} | {median(since):.0f} | {median(used):.0f} |"
    )


if __name__ == "__main__":
    main()
