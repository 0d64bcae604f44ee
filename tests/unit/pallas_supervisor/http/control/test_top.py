"""`GET /v1/top`: every agent with what it uses, from what the status page is made from."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import httpx

from pallas_supervisor.lifecycle.states import WorkerId
from pallas_supervisor.processes.worker import LaunchInfo, Worker
from support.supervisor.rig import Rig, rig, two_agents

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

type Ask = Callable[[], Awaitable[dict[str, Any]]]


def asked(directory: Path, do: Callable[[Rig, Ask], Awaitable[None]]) -> None:
    async def run() -> None:
        async with rig(directory, two_agents()) as made:
            transport = httpx.ASGITransport(made.control_api(), raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://pallas") as client:

                async def ask() -> dict[str, Any]:
                    response = await client.get("/v1/top")
                    assert response.status_code == 200, response.text
                    answer: dict[str, Any] = response.json()
                    return answer

                await do(made, ask)

    asyncio.run(run())


def test_agents_and_the_supervisor(tmp_path: Path) -> None:
    async def do(rig: Rig, ask: Ask) -> None:
        rig.operations.start(["library"])
        rig.come_up("library")
        # This process stands for a worker: it has memory and has used time.
        one = WorkerId("library", 1)
        rig.world.workers[one] = Worker(id=one, pid=os.getpid(), pidfd=-1, launch_info=LaunchInfo(at=1.0))
        first, second = await ask(), await ask()
        assert first["supervisor"]["pid"] == os.getpid()
        assert first["supervisor"]["memory"] > 2**20
        library, research = first["agents"]
        assert (library["name"], library["state"], library["desired"]) == ("library", "ready", "up")
        assert library["memory"] > 2**20
        assert library["cpu_seconds"] > 0
        assert (research["memory"], research["cpu_seconds"]) == (None, 0.0)
        assert (library["calls"], library["p50"]) == (0, None)
        assert second["clock"] > first["clock"]
        assert second["agents"][0]["cpu_seconds"] >= library["cpu_seconds"]
        rig.world.workers.clear()
        gone = (await ask())["agents"][0]
        assert gone["memory"] is None
        assert gone["cpu_seconds"] >= second["agents"][0]["cpu_seconds"], "a counter does not go back"

    asked(tmp_path, do)
