"""A worker's bounds: calls that run, calls that wait, the refusal beyond, and the size of a request."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from mcp.client import Client

from fakes.downstream import Fault, Recorded, RunningDownstream, run_downstream
from support.worker.census import until
from support.worker.process import RunningWorker, run_worker
from support.worker.project import MODES, ask, call, project, text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mcp_types import CallToolResult

HELD = '***CALL_TOOL held__echo {"text": "x"}'
LIMIT = 4096


def is_call(request: Recorded) -> bool:
    return request.rpc_method == "tools/call"


@contextmanager
def holding(directory: Path, **bounds: Any) -> Iterator[tuple[RunningWorker, RunningDownstream]]:
    """A worker whose tool calls stand still until the downstream server lets them go."""
    with run_downstream(fault=lambda request: Fault(hold=True) if is_call(request) else None) as server:
        servers = {"held": {"transport": "http", "url": server.url}}
        with run_worker(project(directory, servers=servers), **bounds) as worker:
            yield worker, server


def gauges(page: str) -> tuple[int, int]:
    """How many calls run, and how many wait."""
    found = [
        re.search(rf'^pallas_calls_{kind}{{agent="demo"}} (\S+)$', page, re.MULTILINE)
        for kind in ("running", "waiting")
    ]
    running, waiting = (int(float(match[1])) if match else -1 for match in found)
    return running, waiting


async def until_they_are(worker: RunningWorker, running: int, waiting: int) -> None:
    await asyncio.to_thread(until, worker, lambda page: gauges(page) == (running, waiting))


@pytest.mark.parametrize("mode", MODES)
def test_calls_wait_for_their_turn_and_those_beyond_are_refused(tmp_path: Path, mode: str) -> None:
    with holding(tmp_path, max_concurrency=2, max_queue=1) as (worker, server):
        assert gauges(httpx.get(f"{worker.origin}/metrics").text) == (0, 0)

        async def alone() -> None:
            # In a stateless session of the older era only the end of the connection says that the caller is gone.
            async with Client(worker.url, mode=mode) as client:
                await client.call_tool("demo", {"message": HELD})

        async def act(client: Client) -> None:
            def start() -> asyncio.Task[CallToolResult]:
                return asyncio.create_task(client.call_tool("demo", {"message": HELD}))

            running = [start(), start()]
            await asyncio.to_thread(server.wait_for, lambda seen: sum(map(is_call, seen)) == 2)
            leaving = asyncio.create_task(alone())
            await until_they_are(worker, 2, 1)
            refused = await client.call_tool("demo", {"message": "one too many"})
            assert refused.is_error
            assert text(refused).startswith("the agent is busy: 2 of 2 calls run, 1 of 1 wait; try again")
            health = await client.call_tool("get_health", {})
            assert json.loads(text(health))["status"] == "ok"

            leaving.cancel()
            await asyncio.gather(leaving, return_exceptions=True)
            await until_they_are(worker, 2, 0)
            waiting = start()
            await until_they_are(worker, 2, 1)
            assert sum(map(is_call, server.requests)) == 2
            server.release()
            for result in await asyncio.gather(*running, waiting):
                assert not result.is_error
            await until_they_are(worker, 0, 0)

        ask(worker.url, mode, act)
        page = httpx.get(f"{worker.origin}/metrics").text
        # Refused and gone: both are errors; the three others are not.
        assert 'pallas_send_message_total{agent="demo",outcome="error"} 2.0' in page
        assert 'pallas_send_message_total{agent="demo",outcome="ok"} 3.0' in page


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningWorker]:
    directory = project(tmp_path_factory.mktemp("project"))
    with run_worker(directory, max_request_bytes=LIMIT) as running:
        yield running


def request_of(size: int) -> bytes:
    """A call whose body has so many bytes."""
    arguments = {"message": ""}
    params = {"name": "demo", "arguments": arguments}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    arguments["message"] = "x" * (size - len(json.dumps(body)))
    return json.dumps(body).encode()


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
def test_a_request_may_have_so_many_bytes_and_no_more(narrow: RunningWorker, chunked: bool) -> None:
    headers = {
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "MCP-Protocol-Version": "2025-11-25",
    }

    def post(size: int) -> httpx.Response:
        body = request_of(size)
        assert len(body) == size
        content = iter([body[:100], body[100:]]) if chunked else body
        return httpx.post(narrow.url, content=content, headers=headers)

    good = post(LIMIT)
    assert good.status_code == 200
    assert "xxx" in good.text
    assert post(LIMIT + 1).status_code == 413
    assert text(call(narrow.url, "auto", "demo", message="still here")) == "still here"
