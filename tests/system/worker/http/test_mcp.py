"""A worker seen by the MCP SDK's own client, in both protocol eras."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from pallas_common.protocol.reports import (
    CodeReport,
    HealthReport,
    Heartbeat,
    PartReport,
    ReadyReport,
    StageReport,
)
from support.data.image_data import PNG
from support.worker.process import RunningWorker, run_worker
from support.worker.project import MODES, ask, call, project, text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp.client import Client

AGENTS = '''
import json

from fast_agent import FastAgent
from fast_agent.agents import McpAgent
from fast_agent.mcp.prompt import Prompt

fast = FastAgent("tests")


@fast.agent(name="demo", instruction="You repeat what is said.")
async def demo(): ...


class Historian(McpAgent):
    """Answers with its whole history, and remembers what it must not."""

    async def generate(self, messages, request_params=None, tools=None):
        history = [[m.role, m.all_text()] for m in self.message_history]
        return Prompt.assistant(json.dumps({"history": history, "instruction": self.instruction}))


@fast.custom(Historian, name="historian", instruction="History only.")
async def historian(): ...


@fast.chain(name="chained", sequence=["demo", "demo"])
async def chained(): ...


@fast.parallel(name="fanned", fan_out=["demo", "historian"])
async def fanned(): ...
'''


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningWorker]:
    with run_worker(project(tmp_path_factory.mktemp("project"), agents=AGENTS)) as running:
        yield running


@pytest.fixture(scope="module")
def historian(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningWorker]:
    with run_worker(project(tmp_path_factory.mktemp("project"), agents=AGENTS), agent="historian") as running:
        yield running


def test_the_stages_of_the_start(worker: RunningWorker) -> None:
    stages = [
        StageReport(stage="importing"),
        StageReport(stage="creating"),
        StageReport(stage="serving"),
        Heartbeat(interval=5.0),
        ReadyReport(
            model="fast-agent.passthrough",
            capabilities=None,
            served="demo",
            parts=(PartReport(name="demo", kind="agent", model="fast-agent.passthrough"),),
        ),
    ]
    code = [report for report in worker.reports if isinstance(report, CodeReport)]
    assert [Path(mark.path).name for report in code for mark in report.files] == ["__init__.py", "demo.py"]
    others = [report for report in worker.reports if not isinstance(report, CodeReport)]
    assert others[: len(stages)] == stages
    assert {type(report) for report in others[len(stages) :]} <= {HealthReport, Heartbeat}


@pytest.mark.parametrize("mode", MODES)
def test_the_listed_tools(worker: RunningWorker, mode: str) -> None:
    tools = {tool.name: tool for tool in ask(worker.url, mode, lambda client: client.list_tools()).tools}
    assert list(tools) == ["send_message", "demo", "get_health"]
    assert tools["demo"].description == "An agent of the tests"
    assert tools["demo"].input_schema == tools["send_message"].input_schema
    assert list(tools["demo"].input_schema["properties"]) == [
        "message",
        "images",
        "history",
        "conversation_id",
    ]
    assert tools["get_health"].input_schema == {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("tool", ["send_message", "demo"])
def test_a_message_is_answered(worker: RunningWorker, mode: str, tool: str) -> None:
    result = call(worker.url, mode, tool, message="Hello, world", conversation_id="c-7")
    assert not result.is_error
    assert text(result) == "Hello, world"


@pytest.mark.parametrize("mode", MODES)
def test_health(worker: RunningWorker, mode: str) -> None:
    health = json.loads(text(call(worker.url, mode, "get_health")))
    assert health["status"] == "ok"
    assert "timestamp" in health
    assert "message" not in health


@pytest.mark.parametrize("mode", MODES)
def test_the_history_prompt_is_empty(worker: RunningWorker, mode: str) -> None:
    async def act(client: Client) -> tuple[list[str], list[Any]]:
        prompts = await client.list_prompts()
        prompt = await client.get_prompt("demo_history")
        return [prompt.name for prompt in prompts.prompts], prompt.messages

    assert ask(worker.url, mode, act) == (["demo_history"], [])


@pytest.mark.parametrize("mode", MODES)
def test_unknown_names_are_protocol_errors(worker: RunningWorker, mode: str) -> None:
    async def act(client: Client) -> None:
        with pytest.raises(MCPError, match="Unknown tool: nothing") as tool:
            await client.call_tool("nothing", {})
        with pytest.raises(MCPError, match="Unknown prompt: nothing") as prompt:
            await client.get_prompt("nothing")
        assert tool.value.code == prompt.value.code == INVALID_PARAMS

    ask(worker.url, mode, act)


@pytest.mark.parametrize("mode", MODES)
def test_bad_arguments_are_error_results(worker: RunningWorker, mode: str) -> None:
    for arguments, reason in (
        ({}, "message is required"),
        (
            {"message": "x", "images": [{"data": "?", "mime_type": "image/png"}]},
            "images[0].data is not base64",
        ),
        ({"message": "x", "unknown": 1}, "unknown argument 'unknown'"),
    ):
        result = call(worker.url, mode, "send_message", **arguments)
        assert result.is_error
        assert reason in text(result)
    assert "takes none" in text(call(worker.url, mode, "get_health", x=1))


def test_images_need_a_model_with_vision(worker: RunningWorker) -> None:
    result = call(
        worker.url, "auto", "send_message", message="x", images=[{"data": PNG, "mime_type": "image/png"}]
    )
    assert result.is_error
    assert text(result) == "images: this agent's model has no vision"


@pytest.mark.parametrize("mode", MODES)
def test_a_long_history_with_three_malformed_rows(historian: RunningWorker, mode: str) -> None:
    rows: list[Any] = [
        {"role": "assistant" if number % 2 else "user", "content": f"row {number}"} for number in range(200)
    ]
    rows[3], rows[100], rows[199] = (
        "nothing",
        {"role": "system", "content": "x"},
        {"role": "user", "content": 5},
    )
    conversation = f"conversation-{mode}"
    result = call(
        historian.url, mode, "send_message", message="now", history=rows, conversation_id=conversation
    )
    good = [[row["role"], row["content"]] for n, row in enumerate(rows) if n not in (3, 100, 199)]
    answer = json.loads(text(result))
    assert answer["history"] == good

    def warnings() -> list[str]:
        return [
            record["message"]
            for record in historian.records
            if record["level"] == "WARNING" and record["conversation_id"] == conversation
        ]

    historian.wait_until(lambda _: len(warnings()) >= 3)
    assert warnings() == [
        "history[3] skipped: a row must be an object with role and content",
        'history[100] skipped: role must be "user", "assistant" or "tool", not \'system\'',
        "history[199] skipped: content must be a string, not 5",
    ]


@pytest.mark.parametrize("mode", MODES)
def test_concurrent_calls_see_nothing_of_each_other(historian: RunningWorker, mode: str) -> None:
    async def act(client: Client) -> None:
        async def one(number: int) -> None:
            mine = [{"role": "user", "content": f"secret of {number}"}]
            result = await client.call_tool("historian", {"message": f"m{number}", "history": mine})
            assert json.loads(text(result))["history"] == [["user", f"secret of {number}"]]

        await asyncio.gather(*(one(number) for number in range(50)))

    ask(historian.url, mode, act)


@pytest.mark.parametrize("agent", ["chained", "fanned"])
def test_workflows_are_served_like_plain_agents(tmp_path_factory: pytest.TempPathFactory, agent: str) -> None:
    directory = project(tmp_path_factory.mktemp("project"), agents=AGENTS)
    with run_worker(directory, agent=agent) as running:
        history = [{"role": "user", "content": "before"}, {"role": "assistant", "content": "yes"}]
        result = call(running.url, "auto", agent, message="through the chain", history=history)
        assert not result.is_error
        assert "through the chain" in text(result)


def test_nothing_is_written_into_the_working_directory(tmp_path: Path) -> None:
    with run_worker(project(tmp_path, agents=AGENTS)) as running:
        call(running.url, "auto", "demo", message="x")
        assert running.stop() == 0
    found = {path.name for path in tmp_path.iterdir()}
    assert found == {"agents", "fastagent.config.yaml", "metrics"}


def test_fast_agents_own_records_reach_the_log(tmp_path: Path) -> None:
    config = "default_model: passthrough\nlogger: {level: debug}\n"
    with run_worker(project(tmp_path, agents=AGENTS, config=config)) as running:
        call(running.url, "auto", "demo", message="x")
        running.wait_until(lambda it: any(record["name"] == "fast_agent" for record in it.records))
