"""Many subscribers of both eras: how soon all hear of one change, and what one takes of the gateway's memory."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import statistics
import tempfile
import time
from pathlib import Path

import click
import psutil

from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.gateway.door import ERAS, await_gateway, make_token, with_gateway
from support.gateway.subscriber import Subscriber

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
        each = (after.uss - before.uss) / count / 1024
        print(
            f"{count} subscribers: {each:.0f} KiB each (gateway {before.uss / 2**20:.0f} → {after.uss / 2**20:.0f} MiB)"
        )
        spans: list[float] = []
        for _ in range(changes):
            for one in everybody:
                one.forget()
            first_at: list[float] = []

            async def told(one: Subscriber, first_at: list[float] = first_at) -> float:
                await one.until(URI)
                first_at.append(time.monotonic())
                return first_at[-1]

            waiting = [asyncio.create_task(told(one)) for one in everybody]
            await asyncio.sleep(0)
            cpu = sum(gateway.cpu_times()[:2])
            await asyncio.to_thread(fleet.post, "/v1/stop", agents=["jarvis"])
            ended = await asyncio.gather(*waiting)
            spans.append(max(ended) - min(first_at))
            used = sum(gateway.cpu_times()[:2]) - cpu
            print(f"  all told within {spans[-1] * 1000:.0f} ms of the first; {used * 1000:.0f} ms of CPU")
            await asyncio.to_thread(fleet.post, "/v1/start", agents=["jarvis"], timeout=60)
            await asyncio.to_thread(fleet.wait)
        print(f"median {statistics.median(spans) * 1000:.0f} ms")


if __name__ == "__main__":
    main()
