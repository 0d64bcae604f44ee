"""Many subscribers while agents die: each hears of the last state of all that it may see, and of nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from typing import TYPE_CHECKING

from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.gateway.door import ERAS, await_gateway, make_token, with_gateway
from support.gateway.mcp.subscriber import Subscriber

if TYPE_CHECKING:
    from pathlib import Path

EACH = 12
"""Subscribers of an era that may see an agent."""


def test_everybody_hears_of_what_they_may_see_and_of_nothing_else(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "fleet", "red", "blue")
    with_gateway(deployment, limits={"requests_per_minute": 100_000, "tenant_requests_per_minute": 100_000})
    with Fleet(deployment) as fleet:
        fleet.wait()
        await_gateway(fleet)
        port = deployment.document["gateway"]["port"]
        tokens = {name: make_token(fleet, name, f"view:agents:{name}") for name in ("red", "blue")}
        uris = {name: f"resource://agents/{name}/state" for name in tokens}

        async def follow() -> None:
            async with contextlib.AsyncExitStack() as stack:
                followers = {
                    name: [
                        await stack.enter_async_context(Subscriber(port, token, list(uris.values()), era))
                        for era in ERAS
                        for _ in range(EACH)
                    ]
                    for name, token in tokens.items()
                }
                stalled = await stack.enter_async_context(
                    Subscriber(port, tokens["red"], list(uris.values()), "stateless")
                )
                stalled.stall()
                for name, those in followers.items():
                    assert all(one.honoured == [uris[name]] for one in those)
                for name in tokens:
                    pid = (await asyncio.to_thread(fleet.agent, name))["pid"]
                    os.kill(pid, signal.SIGKILL)
                for name, those in followers.items():
                    await asyncio.gather(*(one.until(uris[name]) for one in those))
                await asyncio.to_thread(fleet.wait)
                # What everybody is told last is what they read then: ready again.
                for name, those in followers.items():
                    await asyncio.gather(*(one.until_read(uris[name], '"running"') for one in those))
                for name, those in followers.items():
                    assert all(set(one.updated) == {uris[name]} for one in those)
                    assert not any(one.ended for one in those)

        asyncio.run(follow())
