"""A worker and its downstream servers: tool calls, bearers, progress, cancellation, servers that are down."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import socket
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from fakes.downstream import Fault, Recorded, RunningDownstream, run_downstream
from support.fleet.process_tree import await_end
from support.ports import free_ports
from support.worker.census import until
from support.worker.process import RunningWorker, run_worker
from support.worker.project import MODES, ask, bearing, call, project, text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mcp.client import Client
    from mcp_types import CallToolResult

EXPLICIT = "Bearer of-the-configuration"


@dataclass
class Setting:
    """A worker whose agent has three servers, all of them alike but for what they may be told."""

    worker: RunningWorker
    opted: RunningDownstream
    plain: RunningDownstream
    explicit: RunningDownstream


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    with ExitStack() as stack:
        opted, plain, explicit = (stack.enter_context(run_downstream(name=name)) for name in "abc")
        servers: dict[str, dict[str, Any]] = {
            "opted": {"transport": "http", "url": opted.url, "forward_inbound_auth": True},
            "plain": {"transport": "http", "url": plain.url},
            "explicit": {
                "transport": "http",
                "url": explicit.url,
                "forward_inbound_auth": True,
                "headers": {"Authorization": EXPLICIT},
            },
        }
        directory = project(tmp_path_factory.mktemp("project"), servers=servers)
        worker = stack.enter_context(run_worker(directory))
        yield Setting(worker, opted, plain, explicit)


def said(request: Recorded) -> str | None:
    """The text of an `echo` call."""
    if request.rpc_method != "tools/call":
        return None
    told: str = request.json["params"]["arguments"]["text"]
    return told


def echo(server: str, told: str) -> str:
    """What makes the passthrough model call `echo` of that server."""
    return f'***CALL_TOOL {server}__echo {{"text": "{told}"}}'


def echoed(told: str) -> str:
    """What the passthrough model makes of the structured result of `echo`."""
    return json.dumps({"result": told}, separators=(",", ":"))


@pytest.mark.parametrize("mode", MODES)
def test_a_tool_is_called(setting: Setting, mode: str) -> None:
    result = call(setting.worker.url, mode, "demo", message=echo("plain", f"hello {mode}"))
    assert text(result) == echoed(f"hello {mode}")
    assert f"hello {mode}" in [said(request) for request in setting.plain.requests]


@pytest.mark.parametrize("mode", MODES)
def test_every_callers_bearer_goes_where_it_may_and_nowhere_else(setting: Setting, mode: str) -> None:
    async def one(number: int) -> None:
        async with bearing(setting.worker.url, f"token-{mode}-{number}", mode) as client:
            for server in ("opted", "plain", "explicit"):
                told = f"{server} {mode}-{number}"
                result = await client.call_tool("demo", {"message": echo(server, told)})
                assert text(result) == echoed(told)

    async def run() -> None:
        await asyncio.gather(*(one(number) for number in range(20)))

    asyncio.run(run())
    calls = {t: request for request in setting.opted.requests if (t := said(request)) is not None}
    for number in range(20):
        assert calls[f"opted {mode}-{number}"].bearer == f"token-{mode}-{number}"
    assert all("authorization" not in request.headers for request in setting.plain.requests)
    assert {request.headers["authorization"] for request in setting.explicit.requests} == {EXPLICIT}


def test_without_a_bearer_none_is_made_up(setting: Setting) -> None:
    assert text(call(setting.worker.url, "auto", "demo", message=echo("opted", "anonymous"))) == echoed(
        "anonymous"
    )
    (request,) = [request for request in setting.opted.requests if said(request) == "anonymous"]
    assert request.bearer is None


@pytest.mark.parametrize("mode", MODES)
def test_progress_increases_and_says_the_agreed_words(setting: Setting, mode: str) -> None:
    seen: list[tuple[float, float | None, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async def act(client: Client) -> CallToolResult:
        return await client.call_tool(
            "demo", {"message": echo("plain", "with progress")}, progress_callback=on_progress
        )

    assert text(ask(setting.worker.url, mode, act)) == echoed("with progress")
    assert all(one[0] < two[0] for one, two in itertools.pairwise(seen))
    messages = [message for _, _, message in seen]
    assert messages.count("plain/echo: started") == messages.count("plain/echo: completed") == 1
    pattern = re.compile(r"plain/echo: (started|completed)|demo step \d+ \((llm|tool)\)")
    assert all(message and pattern.fullmatch(message) for message in messages), messages
    assert any(message and message.startswith("demo step") for message in messages)
    for progress, total, message in seen:
        assert total == (progress if message == "plain/echo: completed" else None)


@pytest.mark.parametrize("mode", MODES)
def test_a_tool_that_fails(setting: Setting, mode: str) -> None:
    result = call(setting.worker.url, mode, "demo", message='***CALL_TOOL plain__echo {"wrong": 1}')
    assert "echo" in text(result)
    metrics = httpx2.get(f"{setting.worker.origin}/metrics").text
    assert 'pallas_tool_calls_total{agent="demo",operation="tool",outcome="error",server="plain"}' in metrics
    assert 'pallas_tool_calls_total{agent="demo",operation="tool",outcome="ok",server="plain"}' in metrics


@pytest.mark.parametrize("mode", MODES)
def test_a_caller_that_goes_away_ends_the_call(tmp_path: Path, mode: str) -> None:
    def held(request: Recorded) -> Fault | None:
        return Fault(hold=True) if said(request) is not None else None

    with run_downstream(fault=held) as server:
        servers = {"held": {"transport": "http", "url": server.url}}
        with run_worker(project(tmp_path, servers=servers)) as worker:

            async def act(client: Client) -> None:
                asking = asyncio.create_task(client.call_tool("demo", {"message": echo("held", "x")}))
                await asyncio.to_thread(server.wait_for, lambda seen: any(map(said, seen)))
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)

            ask(worker.url, mode, act)
            metric = 'pallas_send_message_total{agent="demo",outcome="error"} 1.0'
            until(worker, lambda page: metric in page)
            # Nothing is left behind: the drain has nothing to wait for, and nothing to cancel.
            assert worker.stop() == 0
            assert not any("did not finish" in message for message in worker.messages("WARNING"))


def test_a_server_that_is_down_leaves_the_agent_degraded_and_answering(tmp_path: Path) -> None:
    with socket.socket() as refused:
        refused.bind(("127.0.0.1", 0))  # bound, and never listening
        with run_downstream() as good:
            servers = {
                "gone": {"transport": "http", "url": f"http://127.0.0.1:{refused.getsockname()[1]}/mcp"},
                "good": {"transport": "http", "url": good.url},
                "missing": {"command": "no-such-command-here"},
            }
            with run_worker(project(tmp_path, servers=servers)) as worker:
                assert text(call(worker.url, "auto", "demo", message="still here")) == "still here"
                assert text(call(worker.url, "auto", "demo", message=echo("good", "tool"))) == echoed("tool")
                health = text(call(worker.url, "auto", "get_health"))
                assert '"status": "degraded"' in health
                assert "Unreachable: gone, missing" in health
                for told in (
                    "gone is down: cannot connect",
                    "missing is down: command 'no-such-command-here' is not",
                ):
                    worker.wait_until(
                        lambda it, told=told: any(told in line for line in it.messages("WARNING"))
                    )


STDIO = """
from mcp.server.mcpserver import MCPServer
server = MCPServer("stdio")

@server.tool()
def pid() -> str:
    import os
    return f"pid {os.getpid()}"

server.run("stdio")
"""


def test_a_stdio_server_lives_as_long_as_its_call(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(STDIO)
    servers = {"local": {"command": sys.executable, "args": ["server.py"]}}
    with run_worker(project(tmp_path, servers=servers)) as worker:
        pids = [
            int(
                re.findall(
                    r"pid (\d+)", text(call(worker.url, mode, "demo", message="***CALL_TOOL local__pid {}"))
                )[0]
            )
            for mode in MODES
        ]
        assert pids[0] != pids[1]
        assert all(await_end(pid, 60) for pid in pids)
        assert '"status": "ok"' in text(call(worker.url, "auto", "get_health"))


def test_a_server_that_comes_back_is_used_again(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    servers = {"late": {"transport": "http", "url": f"http://127.0.0.1:{port}/mcp"}}
    with run_worker(project(tmp_path, servers=servers)) as worker:
        assert text(call(worker.url, "auto", "demo", message="alone")) == "alone"
        with run_downstream(port=port):
            assert text(call(worker.url, "auto", "demo", message=echo("late", "back"))) == echoed("back")


def test_an_unauthorized_server_never_leads_to_a_browser(tmp_path: Path) -> None:
    with run_downstream(fault=Fault(status=401, headers={"WWW-Authenticate": "Bearer"})) as server:
        servers = {"closed": {"transport": "http", "url": server.url, "forward_inbound_auth": True}}
        with run_worker(project(tmp_path, servers=servers)) as worker:
            assert text(call(worker.url, "auto", "demo", message="x")) == "x"
        assert {request.path for request in server.requests} == {"/mcp"}


def test_a_header_with_an_unset_variable_is_warned_of(tmp_path: Path) -> None:
    with run_downstream() as server:
        headers = {"Authorization": "Bearer ${NO_SUCH_VARIABLE}"}
        servers = {"argos": {"transport": "http", "url": server.url, "headers": headers}}
        with run_worker(project(tmp_path, servers=servers)) as worker:
            unset = "NO_SUCH_VARIABLE, which is not set: set it in .env"
            expected = f"server argos: the header Authorization names {unset}"
            worker.wait_until(lambda it: expected in it.messages("WARNING"))
