"""Progress as clients see it: nested agents, tools side by side, failures, and clients that do not listen."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx2
import pytest

from fakes.downstream import RunningDownstream, run_downstream
from fakes.llm_stub import Asked, Call, Turn, by_request, run_llm_stub
from pallas_common.protocol.agent.llm import ModelCapabilities
from support.worker.census import PATIENCE, series, until
from support.worker.process import RunningWorker, run_worker
from support.worker.project import MODES, ask, call, project, text
from support.worker.raw import raw_call

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp.client import Client
    from mcp_types import CallToolResult

PATTERN = re.compile(r"[^\s/]+/\S+: (started|completed|failed)|\S+ step [1-9]\d* \((llm|tool)\)")
"""The messages of the interface document."""
ENDED = re.compile(r".*: (completed|failed)")
SOURCE = """
from fast_agent import FastAgent

fast = FastAgent("tests")


@fast.agent(name="child", instruction="You are the child.", servers=["tools"])
async def child(): ...


@fast.agent(name="demo", instruction="You are the parent.", servers=["tools"], agents=["child"], default=True)
async def demo(): ...
"""


class Event(NamedTuple):
    """One notification."""

    progress: float
    total: float | None
    message: str | None


def family(asked: Asked) -> Turn:
    """`ask child N` asks the child N times, side by side; the child does what the lines tell it."""
    if asked.user.startswith("ask child") and not asked.tool_results:
        tool = next(name for name in asked.tools if "child" in name)
        count, _, lines = asked.user.removeprefix("ask child ").partition("\n")
        return Turn(calls=tuple(Call(tool, {"message": lines}) for _ in range(int(count))))
    return by_request(asked)


class Setting(NamedTuple):
    """A worker whose agent has a child, and both the same server."""

    worker: RunningWorker
    tools: RunningDownstream


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    with ExitStack() as stack:
        stub = stack.enter_context(run_llm_stub(answer=family))
        tools = stack.enter_context(run_downstream())
        config = (
            "default_model: openai.stub-model\n"
            f"openai: {{api_key: sk-stub-0123456789, base_url: '{stub.openai_url}'}}\n"
            "llm_retries: 0\n"
        )
        servers = {"tools": {"transport": "http", "url": tools.url}}
        directory = project(tmp_path_factory.mktemp("project"), agents=SOURCE, servers=servers, config=config)
        capabilities = ModelCapabilities(context_window=1_000_000, max_output_tokens=500)
        spec: dict[str, Any] = {"default_model": "openai.stub-model", "capabilities": capabilities}
        yield Setting(stack.enter_context(run_worker(directory, **spec)), tools)


def listen(url: str, mode: str, message: str) -> tuple[str, list[Event]]:
    """The answer and what was told before it."""
    events: list[Event] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        events.append(Event(progress, total, message))

    async def act(client: Client) -> CallToolResult:
        return await client.call_tool("demo", {"message": message}, progress_callback=on_progress)

    return text(ask(url, mode, act)), events


def check(events: list[Event]) -> list[str]:
    """What holds of all progress; the messages."""
    assert events
    assert all(one.progress < two.progress for one, two in itertools.pairwise(events)), events
    for event in events:
        ended = event.message is not None and ENDED.fullmatch(event.message)
        assert event.total == (event.progress if ended else None), event
        assert event.message is None or PATTERN.fullmatch(event.message), event
    return [event.message for event in events if event.message is not None]


def command(tool: str, **arguments: Any) -> str:
    """A line that makes the model call a tool."""
    return f"CALL tools__{tool} {json.dumps(arguments)}"


@pytest.mark.parametrize("mode", MODES)
def test_tools_side_by_side_and_one_that_fails(setting: Setting, mode: str) -> None:
    lines = [command("echo", text=f"t{number}") for number in range(6)]
    lines += [command("fail", text="on purpose"), command("echo", wrong=1)]
    answer, events = listen(setting.worker.url, mode, "\n".join(lines))
    assert "t5" in answer
    messages = check(events)
    assert messages.count("tools/echo: started") == 7
    assert messages.count("tools/echo: completed") == 6
    assert messages.count("tools/echo: failed") == 1
    assert (messages.count("tools/fail: started"), messages.count("tools/fail: failed")) == (1, 1)
    steps = [message for message in messages if message.startswith("demo step")]
    assert any(step.endswith("(llm)") for step in steps)
    assert any(step.endswith("(tool)") for step in steps)
    assert not any("on purpose" in message for message in messages)


@pytest.mark.parametrize("mode", MODES)
def test_agents_inside_an_agent(setting: Setting, mode: str) -> None:
    inner = "\n".join([command("echo", text="deep"), command("fail", text="x")])
    answer, events = listen(setting.worker.url, mode, f"ask child 3\n{inner}")
    assert "deep" in answer
    messages = check(events)
    assert messages.count("tools/echo: started") == messages.count("tools/echo: completed") == 3
    assert messages.count("tools/fail: started") == messages.count("tools/fail: failed") == 3
    children = [m for m in messages if re.fullmatch(r"agent/\S*child\S*: (started|completed)", m)]
    assert len(children) == 6


@pytest.mark.parametrize("mode", MODES)
def test_what_a_downstream_server_reports_is_passed_on_if_clients_know_it(
    setting: Setting, mode: str
) -> None:
    told = ["research/look_up: started", "half way", "research step 2 (tool)", "research/look_up: completed"]
    _, events = listen(setting.worker.url, mode, command("report", messages=told))
    messages = check(events)
    assert [m for m in messages if m in told] == [told[0], *told[2:]]
    assert "half way" not in messages


def raw(url: str, mode: str, message: str, token: str | int | None) -> list[dict[str, Any]]:
    """All JSON-RPC messages that one `tools/call` is answered with."""
    headers, body = raw_call(mode, message, token)
    with (
        httpx2.Client() as http,
        http.stream("POST", url, headers=headers, content=body) as response,
    ):
        assert response.status_code == 200
        if response.headers["content-type"].startswith("application/json"):
            return [json.loads(response.read())]
        events = (line.removeprefix("data:") for line in response.iter_lines() if line.startswith("data:"))
        return [json.loads(event) for event in events if event.strip()]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("token", ["a token", 0, 12, None])
def test_only_who_asks_is_told(setting: Setting, mode: str, token: str | int | None) -> None:
    messages = raw(setting.worker.url, mode, command("echo", text="raw"), token)
    *told, answer = messages
    assert answer["id"] == 7
    assert "raw" in json.dumps(answer["result"])
    if token is None:
        assert told == []
        return
    assert {message["method"] for message in told} == {"notifications/progress"}
    assert {message["params"]["progressToken"] for message in told} == {token}
    check(
        [Event(m["params"]["progress"], m["params"].get("total"), m["params"].get("message")) for m in told]
    )
    # `total` is either a number or not there at all, as the schema wants it.
    assert all(m["params"].get("total", 0) is not None for m in told)


@pytest.mark.parametrize("mode", MODES)
def test_a_client_that_stops_to_read_fails_nothing(setting: Setting, mode: str) -> None:
    worker = setting.worker
    ok = 'pallas_send_message_total{agent="demo",outcome="ok"}'
    before = series(until(worker, lambda _: True), ok)
    # More than both sockets' buffers hold: each message is known to clients, and passed on.
    told = [f"big/{'x' * 60_000}: started"] * 200
    headers, body = raw_call(mode, "never read", "t")
    body = json.loads(body)
    body["params"]["arguments"]["message"] = command("report", messages=told)
    payload = json.dumps(body).encode()
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect(("127.0.0.1", worker.port))
        lines = [f"{name}: {value}" for name, value in headers.items()]
        head = "\r\n".join(["POST /mcp HTTP/1.1", f"host: 127.0.0.1:{worker.port}", *lines])
        deaf.sendall(f"{head}\r\ncontent-length: {len(payload)}\r\n\r\n".encode() + payload)
        until(worker, lambda metrics: series(metrics, ok) == before + 1)
        # Others are served as ever.
        assert "meanwhile" in text(call(worker.url, mode, "demo", message="meanwhile"))
    assert worker.process.poll() is None


@pytest.mark.parametrize("mode", MODES)
def test_a_client_that_leaves_in_the_middle_of_its_progress(setting: Setting, mode: str) -> None:
    worker = setting.worker
    errors = 'pallas_send_message_total{agent="demo",outcome="error"}'
    before = series(until(worker, lambda _: True), errors)
    events: list[Event] = []
    inner = "\n".join(command("report", messages=["a/b: started"] * 20) for _ in range(3))

    async def act(client: Client) -> None:
        enough = asyncio.Event()

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            events.append(Event(progress, total, message))
            if len(events) == 10:
                enough.set()
                await asyncio.Event().wait()

        told = {"message": f"ask child 3\n{inner}"}
        calling = asyncio.create_task(client.call_tool("demo", told, progress_callback=on_progress))
        async with asyncio.timeout(PATIENCE):
            await enough.wait()
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)

    ask(worker.url, mode, act)
    assert all(one.progress < two.progress for one, two in itertools.pairwise(events)), events
    metrics = until(worker, lambda m: 'pallas_calls_running{agent="demo"} 0.0' in m)
    assert series(metrics, errors) in (before, before + 1)
    assert "later" in text(call(worker.url, mode, "demo", message="later"))
