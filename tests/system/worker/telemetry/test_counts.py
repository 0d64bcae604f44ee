"""A worker's series at their source: what one call adds, to the number, also when it fails or its caller leaves."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

import httpx
import pytest
from mcp.client import Client
from mcp.server.mcpserver import MCPServer

from fakes.downstream import Fault, Recorded, run_downstream
from fakes.llm_stub import Call, Turn, Usage, run_llm_stub
from fakes.loopback import serve
from pallas_common.protocol.reports import HealthReport
from support.ports import free_ports
from support.worker.census import series, until
from support.worker.conversation.llm import config, spec
from support.worker.process import RunningWorker, run_worker
from support.worker.project import MODES, call, project, text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

READER = """
from fast_agent import FastAgent
from fast_agent.agents import McpAgent
from fast_agent.mcp.prompt import Prompt

fast = FastAgent("tests")


class Reader(McpAgent):
    async def generate(self, messages, request_params=None, tools=None):
        for act in (
            lambda: self.call_tool("library__look_up", {"topic": "x"}),
            lambda: self.call_tool("library__look_up", {"wrong": "x"}),
            lambda: self.get_prompt("greeting", namespace="library"),
            lambda: self.get_resource("book://one", namespace="library"),
            lambda: self.get_resource("book://none", namespace="library"),
        ):
            try:
                await act()
            except Exception:
                pass
        return Prompt.assistant("read")


@fast.custom(Reader, name="demo", servers=["library"])
async def demo(): ...
"""


def counted(worker: RunningWorker) -> dict[str, float]:
    """The counters and the counts of histograms, by name and labels without the agent."""
    page = httpx.get(f"{worker.origin}/metrics").text
    found = {}
    for name, labels, value in re.findall(r"^pallas_(\w+(?:_total|_count)){(.*)} (\S+)$", page, re.MULTILINE):
        pairs = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        assert pairs.pop("agent") == "demo"
        found[" ".join([name, *(pairs[key] for key in sorted(pairs))])] = float(value)
    return found


@contextmanager
def library() -> Iterator[str]:
    """A downstream server with a tool, a prompt and a resource."""
    server = MCPServer("library")

    @server.tool()
    def look_up(topic: str) -> str:
        return topic

    @server.prompt()
    def greeting() -> str:
        return "hello"

    @server.resource("book://one")
    def book() -> str:
        return "once upon a time"

    with serve(server.streamable_http_app()) as loopback:
        yield f"{loopback.origin}/mcp"


def test_downstream_operations_by_kind_and_outcome(tmp_path: Path) -> None:
    with library() as url:
        servers = {"library": {"transport": "http", "url": url}}
        with run_worker(project(tmp_path, agents=READER, servers=servers)) as worker:
            before = counted(worker)
            assert text(call(worker.url, "auto", "demo", message="x")) == "read"
            after = counted(worker)
            added = {
                key: value - before.get(key, 0) for key, value in after.items() if value != before.get(key)
            }
            kinds = {"tool", "prompt", "resource"}
            operations = {key: value for key, value in added.items() if kinds & set(key.split())}
            assert operations == {
                "tool_calls_total tool ok library": 1,
                "tool_calls_total tool error library": 1,
                "tool_calls_total prompt ok library": 1,
                "tool_calls_total resource ok library": 1,
                "tool_calls_total resource error library": 1,
                "tool_call_duration_seconds_count tool library": 2,
                "tool_call_duration_seconds_count prompt library": 1,
                "tool_call_duration_seconds_count resource library": 2,
            }
            assert added["send_message_total ok"] == added["send_message_duration_seconds_count"] == 1


@pytest.mark.parametrize("mode", MODES)
def test_a_call_whose_caller_leaves_is_an_error_and_what_it_cost_is_counted(
    tmp_path: Path, mode: str
) -> None:
    def is_call(request: Recorded) -> bool:
        return request.rpc_method == "tools/call"

    with (
        run_llm_stub() as stub,
        run_downstream(fault=lambda request: Fault(hold=True) if is_call(request) else None) as tools,
    ):
        servers = {"tools": {"transport": "http", "url": tools.url}}
        with run_worker(project(tmp_path, servers=servers, config=config(stub)), **spec()) as worker:
            before = counted(worker)
            stub.script(Turn(calls=(Call("tools__echo", {"text": "x"}),), usage=Usage(input=11, output=5)))

            async def act() -> None:
                async def alone() -> None:
                    async with Client(worker.url, mode=mode) as client:
                        await client.call_tool("demo", {"message": "x"})

                asking = asyncio.create_task(alone())
                await asyncio.to_thread(tools.wait_for, lambda seen: any(map(is_call, seen)))
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)
                failed = 'pallas_send_message_total{agent="demo",outcome="error"}'
                await asyncio.to_thread(until, worker, lambda page: series(page, failed) == 1)

            asyncio.run(act())
            after = counted(worker)
            added = {key: value - before.get(key, 0) for key, value in after.items()}
            assert added["send_message_total error"] == added["send_message_duration_seconds_count"] == 1
            assert after["send_message_total ok"] == 0
            assert added["tool_calls_total tool error tools"] == 1
            assert added["llm_turns_total stub-model"] == 1
            assert added["llm_tokens_total input stub-model"] == 11
            assert added["llm_tokens_total output stub-model"] == 5


def test_bad_arguments_are_errors_too(tmp_path: Path) -> None:
    with run_worker(project(tmp_path)) as worker:
        assert call(worker.url, "auto", "demo", wrong=1).is_error
        assert counted(worker)["send_message_total error"] == 1
        call(worker.url, "auto", "get_health")
        assert counted(worker)["send_message_duration_seconds_count"] == 1


def test_an_agent_recovers_by_itself_when_its_server_comes(tmp_path: Path) -> None:
    """Degraded and answering without it; then healthy, and the next call uses it."""
    (port,) = free_ports(1)
    servers = {"late": {"transport": "http", "url": f"http://127.0.0.1:{port}/mcp"}}
    with run_worker(project(tmp_path, servers=servers), probe_interval=0.5) as worker:

        def newest(status: str) -> bool:
            healths = [report for report in worker.reports if isinstance(report, HealthReport)]
            return bool(healths) and healths[-1].status == status

        worker.wait_until(lambda _: newest("degraded"))
        assert "Unreachable: late" in text(call(worker.url, "auto", "get_health"))
        assert text(call(worker.url, "auto", "demo", message="alone")) == "alone"
        assert (
            'pallas_downstream_up{agent="demo",server="late"} 0.0'
            in httpx.get(f"{worker.origin}/metrics").text
        )
        with run_downstream(port=port):
            worker.wait_until(lambda _: newest("ok"))
            assert json.loads(text(call(worker.url, "auto", "get_health")))["status"] == "ok"
            used = '***CALL_TOOL late__echo {"text": "back"}'
            assert "back" in text(call(worker.url, "auto", "demo", message=used))
            assert text(call(worker.url, "legacy", "demo", message=used)) == '{"result":"back"}'
        worker.wait_until(lambda _: newest("degraded"))
        assert text(call(worker.url, "auto", "demo", message="alone again")) == "alone again"
