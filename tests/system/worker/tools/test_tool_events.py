"""Each kind of tool passes the guard: it is told once with its server, counted, and bounded by allow-lists."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from fakes.downstream import run_downstream
from fakes.llm_stub import Call, LlmStub, Turn
from support.worker.conversation.llm import config, metric, spec
from support.worker.conversation.turns import turn
from support.worker.process import RunningWorker, run_worker
from support.worker.project import project

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fakes.downstream import RunningDownstream

AGENTS = """
from fast_agent import FastAgent

fast = FastAgent("tests")


def own(text: str) -> str:
    return f"own {text}"


@fast.agent(name="child", instruction="You are the child.", servers=["tools"])
async def child(): ...


@fast.agent(
    name="demo", instruction="You are the parent.", servers=["tools"], function_tools=[own], agents=["child"],
    shell=True, human_input=True, subagents=True,
)
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
    directory = project(
        tmp_path_factory.mktemp("project"),
        agents=AGENTS,
        servers={"tools": {"transport": "http", "url": tools.url}},
        config=config(stub),
    )
    (directory / "file.txt").write_text("in the file")
    with run_worker(directory, overrides=True, **spec()) as running:
        yield running


def counted(worker: RunningWorker, server: str, outcome: str) -> float:
    return metric(
        worker,
        f'pallas_model_tool_calls_total{{agent="demo",outcome="{outcome}",server="{server}"}}',
    )


def line(tool: str, **arguments: object) -> str:
    return f"CALL {tool} {json.dumps(arguments)}"


@pytest.mark.parametrize(
    ("tool", "arguments", "server", "ok"),
    [
        ("tools__echo", {"text": "x"}, "tools", True),
        ("tools__fail", {"text": "x"}, "tools", False),
        ("own", {"text": "x"}, None, True),
        ("bash", {"command": "echo x"}, None, True),
        ("read_text_file", {"path": "file.txt"}, None, True),
        ("agent__child", {"message": "x"}, None, True),
        ("subagent", {"message": "x"}, None, True),
        ("__human_input", {"message": "x"}, None, False),
    ],
)
def test_a_call_is_told_and_counted_once(
    worker: RunningWorker, tool: str, arguments: dict[str, object], server: str | None, ok: bool
) -> None:
    outcome = "ok" if ok else "error"
    before = counted(worker, server or "own", outcome)
    told = turn(worker, "demo", line(tool, **arguments))
    assert told.of("tool_call", "agent", "server", "tool", "arguments") == [("demo", server, tool, arguments)]
    assert told.of("tool_result", "agent", "server", "tool", "ok") == [("demo", server, tool, ok)]
    assert told.of("tool_call", "id") == told.of("tool_result", "id")
    assert counted(worker, server or "own", outcome) == before + 1


@pytest.mark.parametrize(("tool", "name"), [("agent__child", "child"), ("subagent", "demo")])
def test_what_another_agent_calls_is_told_inside_the_call_of_that_agent(
    worker: RunningWorker, tool: str, name: str
) -> None:
    told = turn(worker, "demo", line(tool, message=line("tools__echo", text="x")))
    assert [
        (event["type"], event["agent"].partition("[")[0], event["tool"])
        for event in told.events
        if "tool" in event
    ] == [
        ("tool_call", "demo", tool),
        ("tool_call", name, "tools__echo"),
        ("tool_result", name, "tools__echo"),
        ("tool_result", "demo", tool),
    ]


def test_calls_beside_each_other_end_on_their_own(worker: RunningWorker, stub: LlmStub) -> None:
    """The quick one does not wait for the other one to be told."""
    slow = Call("bash", {"command": "sleep 1"})
    stub.script(Turn(calls=(slow, Call("own", {"text": "x"}))))
    told = turn(worker, "demo", "x")
    assert told.of("tool_call", "tool") == [("bash",), ("own",)]
    assert told.of("tool_result", "tool") == [("own",), ("bash",)]


def test_a_refused_call_is_told_to_have_failed(worker: RunningWorker) -> None:
    before = counted(worker, "own", "refused")
    told = turn(worker, "demo", line("nothing"))
    assert told.of("tool_call", "server", "tool") == [(None, "nothing")]
    assert told.of("tool_result", "tool", "ok") == [("nothing", False)]
    assert counted(worker, "own", "refused") == before + 1


@pytest.mark.parametrize(
    ("allowed", "listed"),
    [
        (["tools__*"], ["tools__add", "tools__echo", "tools__fail", "tools__report"]),
        (["own", "tools__add"], ["own", "tools__add"]),
        ([], []),
    ],
)
def test_an_allow_list_hides_and_refuses(
    worker: RunningWorker, stub: LlmStub, tools: RunningDownstream, allowed: list[str], listed: list[str]
) -> None:
    tools.forget()
    told = turn(worker, "demo", line("bash", command="touch witness"), tools_allowlist=allowed)
    assert sorted(stub.asked[-1].tools) == sorted(stub.asked[-2].tools) == listed
    assert told.of("tool_result", "tool", "ok") == [("bash", False)]
    assert "'bash' is not available to this agent" in stub.asked[-1].tool_results[0]


def test_an_allow_list_bounds_the_agents_that_are_called_as_well(
    worker: RunningWorker, stub: LlmStub
) -> None:
    inner = "\n".join((line("tools__add", a=1, b=2), line("tools__echo", text="x")))
    told = turn(
        worker, "demo", line("agent__child", message=inner), tools_allowlist=["agent__child", "tools__echo"]
    )
    assert ("tools__add", False) in told.of("tool_result", "tool", "ok")
    assert ("tools__echo", True) in told.of("tool_result", "tool", "ok")
    assert {asked.tools for asked in stub.asked[-4:]} == {
        ("tools__echo", "agent__child"),
        ("tools__echo",),
    }
    turn(worker, "demo", "x")
    assert "bash" in stub.asked[-1].tools


@pytest.mark.parametrize("field", ["tools_allowlist", "hold"])
def test_a_tool_that_is_none_is_refused_by_name(worker: RunningWorker, stub: LlmStub, field: str) -> None:
    asked = len(stub.asked)
    failure = turn(worker, "demo", "x", None, **{field: ["own", "toolz__*"]}).failure
    assert failure is not None
    assert failure["param"] == field
    assert failure["message"].startswith(
        f"{field}: 'toolz__*' is no tool of this agent; it has __human_input, agent"
    )
    assert len(stub.asked) == asked
