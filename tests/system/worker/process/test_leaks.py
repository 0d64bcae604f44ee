"""A worker after many calls of the SDK's client: nothing of them is left behind."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from fakes.downstream import run_downstream
from support.worker.census import ASK_PASSTHROUGH, agent, check_nothing_is_left, settle
from support.worker.process import run_worker
from support.worker.project import MODES, ask, project, text

if TYPE_CHECKING:
    from pathlib import Path

    from mcp.client import Client

SLACK = 12
"""What warming up, a probe and closing connections may hold at a moment; 100 calls are more."""


def test_nothing_grows_with_the_number_of_calls(tmp_path: Path) -> None:
    with run_downstream() as tools:
        servers = {"tools": {"transport": "http", "url": tools.url}}
        with run_worker(project(tmp_path, agents=agent(["tools"]), servers=servers)) as worker:

            async def calls(client: Client) -> None:
                told = {"message": '***CALL_TOOL tools__echo {"text": "called"}'}
                for _ in range(10):
                    for result in await asyncio.gather(*(client.call_tool("demo", told) for _ in range(5))):
                        assert "called" in text(result)

            ask(worker.url, "auto", calls)
            before = settle(worker, ASK_PASSTHROUGH)
            for mode in MODES:
                ask(worker.url, mode, calls)
            check_nothing_is_left(worker, before, SLACK, ASK_PASSTHROUGH)
