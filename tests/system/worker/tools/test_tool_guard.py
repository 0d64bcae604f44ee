"""A model can call the tools that it is told of, and nothing else by whatever name: filters are kept at the call."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from fakes.downstream import RunningDownstream, run_downstream
from fakes.llm_stub import Call, LlmStub, Turn
from support.worker.conversation.llm import config, metric, spec
from support.worker.process import RunningWorker, run_worker
from support.worker.project import call, project, text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REFUSED = 'pallas_refused_tool_calls_total{agent="demo"}'
AGENTS = """
from pathlib import Path

from fast_agent import FastAgent
from fast_agent.agents import McpAgent
from mcp_types import ListToolsResult

fast = FastAgent("tests")


class Narrow(McpAgent):
    async def list_tools(self):
        listed = await super().list_tools()
        return ListToolsResult(tools=[tool for tool in listed.tools if tool.name == "own"])


def own(text: str) -> str:
    return f"own {text}"


def hidden(text: str) -> str:
    Path("witness").touch()
    return f"hidden {text}"


@fast.agent(name="child", instruction="You are the child.", servers=["tools"], tools={"tools": ["add"]})
async def child(): ...


@fast.custom(Narrow, name="narrow", instruction="x", servers=["tools"], function_tools=[own, hidden])
async def narrow(): ...


@fast.agent(
    name="demo", instruction="You are the parent.", servers=["tools", "others"],
    tools={"tools": ["add", "report"]}, agents=["child", "narrow"],
)
async def demo(): ...
"""


FILES = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("files")


@server.tool()
def read_text_file(path: str) -> str:
    return "hidden"


@server.tool()
def listed() -> str:
    return "listed"


server.run("stdio")
"""
WITH_FILE_TOOLS = """
from fast_agent import FastAgent

fast = FastAgent("tests")


@fast.agent(name="demo", instruction="x", servers=["files"], tools={"files": ["listed"]}, shell=True)
async def demo(): ...
"""


@pytest.fixture(scope="module")
def tools() -> Iterator[RunningDownstream]:
    with run_downstream() as running:
        yield running


@pytest.fixture(scope="module")
def worker(
    stub: LlmStub, tools: RunningDownstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningWorker]:
    with run_downstream() as others:
        servers = {
            "tools": {"transport": "http", "url": tools.url},
            "others": {"transport": "http", "url": others.url},
        }
        directory = project(
            tmp_path_factory.mktemp("project"), agents=AGENTS, servers=servers, config=config(stub)
        )
        with run_worker(directory, **spec()) as running:
            yield running
        assert not (directory / "witness").exists()


def called(tools: RunningDownstream) -> list[str]:
    """The tools of the server that have been called, in the order of the calls."""
    bodies = (json.loads(request.body) for request in tools.requests if request.rpc_method == "tools/call")
    return [body["params"]["name"] for body in bodies]


def ask(worker: RunningWorker, tool: str, **arguments: object) -> str:
    return text(call(worker.url, "auto", "demo", message=f"CALL {tool} {json.dumps(arguments)}"))


@pytest.mark.parametrize(
    "name", ["tools__echo", "TOOLS__ECHO", "tools__fail", "Tools__Fail", "nothing", "bash"]
)
def test_a_hidden_tool_is_refused_by_whatever_name(
    worker: RunningWorker, stub: LlmStub, tools: RunningDownstream, name: str
) -> None:
    before = metric(worker, REFUSED)
    tools.forget()
    answer = ask(worker, name, text="x")
    assert f"the tool '{name}' is not available to this agent" in answer
    assert not called(tools)
    assert metric(worker, REFUSED) == before + 1
    assert "tools__add" in stub.asked[-1].tools
    assert "tools__echo" not in stub.asked[-1].tools


@pytest.mark.parametrize("name", ["tools__add", "TOOLS__Add"])
def test_a_tool_that_is_listed_runs(worker: RunningWorker, tools: RunningDownstream, name: str) -> None:
    before = metric(worker, REFUSED)
    tools.forget()
    assert "3.0" in ask(worker, name, a=1, b=2)
    assert called(tools) == ["add"]
    assert metric(worker, REFUSED) == before


def test_a_name_without_its_server_means_the_one_tool_that_is_listed(
    worker: RunningWorker, tools: RunningDownstream
) -> None:
    tools.forget()
    assert "from others" in ask(worker, "echo", text="from others")
    assert not called(tools)


def test_of_several_calls_those_that_may_run_do(
    worker: RunningWorker, stub: LlmStub, tools: RunningDownstream
) -> None:
    tools.forget()
    before = metric(worker, REFUSED)
    calls = (
        Call("tools__echo", {"text": "a"}),
        Call("tools__add", {"a": 1, "b": 2}),
        Call("agent__child", {"message": "b"}),
        Call("others__echo", {"text": "c"}),
        Call("tools__fail", {"text": "d"}),
    )
    stub.script(Turn(calls=calls))
    call(worker.url, "auto", "demo", message="x")
    first, second, third, fourth, fifth = stub.asked[-1].tool_results
    assert "not available" in first
    assert "3.0" in second
    assert "echo: b" in third
    assert "c" in fourth
    assert "not available" in fifth
    assert called(tools) == ["add"]
    assert metric(worker, REFUSED) == before + 2


def test_a_childs_filter_is_kept(worker: RunningWorker, tools: RunningDownstream) -> None:
    tools.forget()
    before = metric(worker, REFUSED)
    answer = ask(worker, "agent__child", message='CALL tools__report {"messages": []}')
    assert "is not available to this agent" in answer
    assert "3.0" in ask(worker, "agent__child", message='CALL tools__add {"a": 1, "b": 2}')
    assert called(tools) == ["add"]
    assert metric(worker, REFUSED) == before + 1


def test_a_narrowed_list_of_functions_is_kept(worker: RunningWorker) -> None:
    assert "own x" in ask(worker, "agent__narrow", message='CALL own {"text": "x"}')
    answer = ask(worker, "agent__narrow", message='CALL hidden {"text": "x"}')
    assert "is not available to this agent; available tools: own" in answer


def test_a_servers_hidden_tool_does_not_take_the_place_of_a_file_tool(stub: LlmStub, tmp_path: Path) -> None:
    script, own = tmp_path / "files.py", tmp_path / "own.txt"
    script.write_text(FILES)
    own.write_text("the agent's own")
    servers = {"files": {"command": sys.executable, "args": [str(script)]}}
    with run_worker(
        project(tmp_path, agents=WITH_FILE_TOOLS, servers=servers, config=config(stub)), **spec()
    ) as worker:
        answer = ask(worker, "read_text_file", path=str(own))
        assert "the agent's own" in answer
        assert "listed" in ask(worker, "files__listed")
    assert {"read_text_file", "files__listed"} <= set(stub.asked[-1].tools)
