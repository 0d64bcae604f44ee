"""A worker after many calls: nothing of them is left behind."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import psutil

from peers.downstream import run_downstream
from system.worker_process import run_worker
from system.worker_project import ask, call, project, text

if TYPE_CHECKING:
    from pathlib import Path

    from mcp.client import Client

SLACK = 5
CENSUS = '''
import asyncio
import json
import logging
import threading

from fast_agent import FastAgent
from fast_agent.agents import McpAgent
from fast_agent.mcp.prompt import Prompt

fast = FastAgent("tests")


class Census(McpAgent):
    """Counts what a call might leave behind, and otherwise calls a tool."""

    async def generate(self, messages, request_params=None, tools=None):
        if messages[0].first_text() != "census":
            await self.call_tool("tools__echo", {"text": "x"})
            return Prompt.assistant("called")
        names = ("mcp.client.sse", "mcp.client.streamable_http", "mcp.client.auth.oauth2")
        filters = sum(len(logging.getLogger(name).filters) for name in names)
        tasks = len(asyncio.all_tasks())
        return Prompt.assistant(json.dumps([filters, tasks, threading.active_count()]))


@fast.custom(Census, name="demo", servers=["tools"])
async def demo(): ...
'''


def test_nothing_grows_with_the_number_of_calls(tmp_path: Path) -> None:
    with run_downstream() as tools:
        servers = {"tools": {"transport": "http", "url": tools.url}}
        with run_worker(project(tmp_path, agents=CENSUS, servers=servers)) as worker:
            process = psutil.Process(worker.process.pid)

            def census() -> list[int]:
                counted = json.loads(text(call(worker.url, "auto", "demo", message="census")))
                return [*counted, settled(process)]

            async def calls(client: Client) -> None:
                for _ in range(10):
                    results = [client.call_tool("demo", {"message": "work"}) for _ in range(5)]
                    for result in await asyncio.gather(*results):
                        assert text(result) == "called"

            ask(worker.url, "auto", calls)
            before = census()
            ask(worker.url, "auto", calls)
            ask(worker.url, "legacy", calls)
            after = census()
            # A background probe, or a connection that is just closing, may be in either count; 100 calls are not.
            assert all(later <= earlier + SLACK for earlier, later in zip(before, after, strict=True)), after


def settled(process: psutil.Process) -> int:
    """The number of open descriptors once two looks in a row agree."""
    last = -1
    while (now := process.num_fds()) != last:
        last = now
    return now
