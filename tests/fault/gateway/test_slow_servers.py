"""Servers behind the gateway that are slow, gone or wild: the others' tools are there at once, and are called."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING

from fakes.downstream import Fault, run_downstream
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.gateway.door import await_gateway, door, make_token, with_gateway
from support.gateway.mcp.subscriber import Subscriber

if TYPE_CHECKING:
    from pathlib import Path

GOOD = 8


def test_a_slow_server_among_ten_delays_nobody(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        good = [stack.enter_context(run_downstream()) for _ in range(GOOD)]
        slow = stack.enter_context(run_downstream())
        servers = {
            f"good{number}": {"transport": "http", "url": each.url} for number, each in enumerate(good)
        }
        servers["slow"] = {"transport": "http", "url": slow.url}
        servers["gone"] = {"transport": "http", "url": "http://127.0.0.1:9/mcp"}
        deployment = make_deployment(tmp_path / "fleet")
        deployment.servers = servers
        deployment.add("worker", servers=tuple(servers))
        with_gateway(deployment)
        fleet = stack.enter_context(Fleet(deployment))
        fleet.wait()
        await_gateway(fleet)
        slow.fault = Fault(hold=True)
        caller = door(fleet, make_token(fleet, "worker", agent="worker"))
        wanted = {f"good{number}__echo" for number in range(GOOD)}
        port = deployment.document["gateway"]["port"]

        async def others() -> None:
            async with Subscriber(port, str(caller.token), [], "sessions") as told:
                for name in sorted(wanted):
                    await told.until_listed(name)

        # The held requests are let go only at the end: whatever waited for them would never come here.
        asyncio.run(others())
        names = caller.names("tools")
        assert wanted <= set(names)
        assert not [name for name in names if name.startswith(("slow__", "gone__"))]
        for number in range(GOOD):
            assert "polo" in caller.tool(f"good{number}__echo", text="polo").text
        mounts = {
            mount["name"]: mount["state"]
            for mount in json.loads(caller.read("resource://agents/worker/mcp/state").text)
        }
        assert mounts["good0"] == "running"
        assert mounts["slow"] in ("initializing", "failed")
        assert mounts["gone"] in ("initializing", "failed")

        async def come_back() -> None:
            async with Subscriber(port, str(caller.token), [], "sessions") as told:
                slow.fault = None
                slow.release()
                await told.until_listed("slow__echo")

        asyncio.run(come_back())
        assert "polo" in caller.tool("slow__echo", text="polo").text
