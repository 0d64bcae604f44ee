"""Which connections are kept: those in use, and those of which somebody wants to hear."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from fakes import stdio_server
from fakes.downstream import Fault, run_downstream
from pallas_common.protocol.gateway import AgentUpstream, ServerUpstream
from pallas_gateway.relay.messages.model import Call
from pallas_gateway.relay.upstreams import Upstreams
from support.fleet.process_tree import await_end

if TYPE_CHECKING:
    from fakes.downstream import RunningDownstream
    from pallas_gateway.relay.upstream import Upstream

PATIENCE = 60.0
SERVER = Path(stdio_server.__file__)
PARAMS = {"name": "echo", "arguments": {"text": "a"}}
CALL = Call(method="tools/call", params=PARAMS, id=1, era="stateless", timeout=None)


def until_there(path: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.005)  # another process's file: nothing tells


def of(server: RunningDownstream) -> ServerUpstream:
    return ServerUpstream(name="one", settings={"transport": "http", "url": server.url})


def is_closed(upstream: Upstream) -> bool:
    return upstream.is_closed


def test_a_server_that_nobody_uses_is_dropped_and_opened_again_when_it_is() -> None:
    async def main() -> None:
        needed: set[Upstream] = set()
        all_of_them = Upstreams(lambda *_: None, None, lambda upstream: upstream in needed)
        async with asyncio.timeout(PATIENCE):
            first = all_of_them.server(of(server))
            await first.settled()
            assert all_of_them.server(of(server)) is first
            await all_of_them.sweep(first.used - 1)
            assert not is_closed(first), "it was used since"
            first.follow("test://one", "agent/a", 10)
            await all_of_them.sweep(time.monotonic() + 1)
            assert not is_closed(first), "it is followed"
            first.unfollow("test://one", "agent/a")
            needed.add(first)
            await all_of_them.sweep(time.monotonic() + 1)
            assert not is_closed(first), "somebody hears of its lists"
            needed.clear()
            server.fault = Fault(hold=True)
            calling = asyncio.ensure_future(first.relay(CALL))
            await asyncio.to_thread(server.wait_for, lambda seen: "tools/call" in str(seen[-1:]))
            await all_of_them.sweep(time.monotonic() + 1)
            assert not is_closed(first), "a call is under way"
            server.fault = None
            server.release()
            assert isinstance((await calling).body, bytes)
            await all_of_them.sweep(time.monotonic() + 1)
            assert is_closed(first)
            assert all_of_them.connections == 0
            await asyncio.to_thread(server.wait_for_gone, lambda gone: gone != [])  # the stream of changes
            second = all_of_them.server(of(server))
            assert second is not first
            await second.settled()
            assert second.listed("tools")
            await all_of_them.close()
            assert second.connections == 0

    with run_downstream() as server:
        asyncio.run(main())


def test_a_server_that_is_declared_no_more_ends_at_once_and_a_busy_one_after_its_call(tmp_path: Path) -> None:
    async def main() -> None:
        all_of_them = Upstreams(lambda *_: None)
        stays, idle, busy = (
            ServerUpstream(name=name, settings={"command": sys.executable, "args": ["-IS", str(SERVER)]})
            for name in ("stays", "idle", "busy")
        )
        async with asyncio.timeout(PATIENCE):
            servers = [all_of_them.server(each) for each in (stays, idle, busy)]
            pids = [await pid_of(each) for each in servers]
            params = {"name": "wait", "arguments": {"path": str(tmp_path / "called")}}
            waiting = Call(method="tools/call", params=params, id=1, era="sessions", timeout=None)
            calling = asyncio.ensure_future(servers[2].relay(waiting))
            await asyncio.to_thread(until_there, tmp_path / "called")
            all_of_them.keep([stays])
            assert await asyncio.to_thread(await_end, pids[1], PATIENCE)
            assert servers[1].is_closed
            assert all_of_them.server(idle) is not servers[1]
            assert not await_end(pids[2], 0)
            calling.cancel()
            assert await asyncio.to_thread(await_end, pids[2], PATIENCE)
            assert not await_end(pids[0], 0)
            await all_of_them.close()
        assert await_end(pids[0], 0)

    async def pid_of(upstream: Upstream) -> int:
        await upstream.settled()
        params = {"name": "pid", "arguments": {}}
        answer = await upstream.relay(
            Call(method="tools/call", params=params, id=1, era="sessions", timeout=None)
        )
        assert isinstance(answer.body, bytes)
        return int(json.loads(answer.body)["result"]["content"][0]["text"].removeprefix("pid "))

    asyncio.run(main())


def test_a_way_to_a_worker_is_dropped_when_nothing_is_under_way() -> None:
    async def main() -> None:
        all_of_them = Upstreams(lambda *_: None)
        agent = AgentUpstream(name="jarvis", uid=None, port=server.port, socket=None)
        async with asyncio.timeout(PATIENCE):
            link = all_of_them.worker(agent)
            asking = asyncio.ensure_future(link.relay(CALL))
            await asyncio.to_thread(server.wait_for, lambda seen: len(seen) == 1)
            await all_of_them.sweep(time.monotonic() + 1)
            assert all_of_them.worker(agent) is link, "a call is under way"
            server.release()
            assert isinstance((await asking).body, bytes)
            await all_of_them.sweep(time.monotonic() + 1)
            assert link.connections == 0
            assert all_of_them.worker(agent) is not link

    with run_downstream(fault=Fault(hold=True)) as server:
        asyncio.run(main())
