"""What an agent's code raises ends the tool or the call that it was raised in, and nothing beside it."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from fakes.llm_stub import Call, LlmStub, Turn
from support.worker.conversation.llm import config, spec
from support.worker.conversation.turns import turn
from support.worker.process import RunningWorker, run_worker
from support.worker.project import project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HEAD = """
import asyncio
import sys

from fast_agent import FastAgent
from fast_agent.agents.tool_runner import ToolRunnerHooks
from fast_agent.agents import McpAgent

fast = FastAgent("tests")


class Mute(Exception):
    def __str__(self):
        raise SystemExit("mute")


class MuteToo(Exception):
    def __str__(self):
        raise KeyError


async def cancelled_beside():
    task = asyncio.create_task(asyncio.sleep(60))
    await asyncio.sleep(0)
    task.cancel()
    await task


async def cancels_itself():
    asyncio.current_task().cancel()
    await asyncio.sleep(0)


async def group():
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(cancelled_beside())
        tasks.create_task(exits())


async def exits():
    sys.exit("no such file")


async def gathers():
    await asyncio.gather(exits(), asyncio.sleep(0))


async def of_a_thread():
    await asyncio.to_thread(sys.exit, 3)


WAYS = {
    "exit": lambda: sys.exit(3),
    "interrupt": lambda: (_ for _ in ()).throw(KeyboardInterrupt),
    "cancelled": lambda: (_ for _ in ()).throw(asyncio.CancelledError),
    "generator": lambda: (_ for _ in ()).throw(GeneratorExit),
    "group": lambda: (_ for _ in ()).throw(BaseExceptionGroup("both", [SystemExit(1), ValueError("x")])),
    "mute": lambda: (_ for _ in ()).throw(MuteToo),
}
AWAITED = {
    "cancelled-beside": cancelled_beside,
    "cancels-itself": cancels_itself,
    "task-group": group,
    "gathers": gathers,
    "thread": of_a_thread,
}


def plainly(way: str) -> str:
    WAYS[way]()
    return "not raised"


async def awaiting(way: str) -> str:
    if way in WAYS:
        WAYS[way]()
    await AWAITED[way]()
    return "not raised"


async def leaving(way: str) -> str:
    loop = asyncio.get_running_loop()
    global left
    if way == "task":
        left = asyncio.create_task(exits())
    elif way == "callback":
        loop.call_soon(sys.exit, 3)
    elif way == "interrupt":
        loop.call_soon(lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    elif way == "stop":
        loop.stop()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return "left"


async def hook(runner, message):
    if "in the hook" in str(message):
        sys.exit("hooked")


class Hooked(McpAgent):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.tool_runner_hooks = ToolRunnerHooks(after_llm_call=hook)


@fast.custom(Hooked, name="demo", instruction="You are the demo.", function_tools=[plainly, awaiting, leaving])
async def demo(): ...
"""


@pytest.fixture(scope="module")
def worker(stub: LlmStub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningWorker]:
    directory = project(tmp_path_factory.mktemp("project"), agents=HEAD, config=config(stub))
    with run_worker(directory, overrides=True, **spec()) as running:
        yield running
        assert running.stop() == 0


def line(tool: str, way: str) -> str:
    return f"CALL {tool} {json.dumps({'way': way})}"


PLAIN = {
    "exit": "SystemExit: 3",
    "interrupt": "KeyboardInterrupt",
    "cancelled": "CancelledError",
    "generator": "GeneratorExit",
    "group": "BaseExceptionGroup: both (2 sub-exceptions)",
    "mute": "MuteToo: (its text cannot be had)",
}
AWAITED = {
    "cancelled-beside": "CancelledError",
    "cancels-itself": "CancelledError",
    "task-group": "SystemExit: no such file",
    "gathers": "SystemExit: no such file",
    "thread": "SystemExit: 3",
}


@pytest.mark.parametrize(
    ("tool", "way", "text"),
    [
        *(("plainly", way, text) for way, text in PLAIN.items()),
        *(("awaiting", way, text) for way, text in (PLAIN | AWAITED).items()),
    ],
)
def test_it_is_that_tools_error(worker: RunningWorker, tool: str, way: str, text: str) -> None:
    told = turn(worker, "demo", line(tool, way))
    assert told.failure is None
    assert told.of("tool_result", "tool", "ok") == [(tool, False)]
    assert told.text == f"tools said: Error: {text}"


@pytest.mark.parametrize("way", ["exit", "cancels-itself"])
def test_tools_beside_it_end_on_their_own(worker: RunningWorker, stub: LlmStub, way: str) -> None:
    stub.script(Turn(calls=(Call("awaiting", {"way": way}), Call("leaving", {"way": "nothing"}))))
    told = turn(worker, "demo", "both")
    assert sorted(told.of("tool_result", "tool", "ok")) == [("awaiting", False), ("leaving", True)]
    assert told.failure is None


@pytest.mark.parametrize("way", ["task", "callback", "interrupt", "stop"])
def test_what_it_leaves_in_the_loop_ends_nothing(worker: RunningWorker, way: str) -> None:
    for _ in range(2):
        assert turn(worker, "demo", line("leaving", way)).text == "tools said: left"


def test_a_hook_ends_its_call_alone(worker: RunningWorker) -> None:
    with ThreadPoolExecutor() as threads:
        calls = [threads.submit(turn, worker, "demo", text) for text in ("in the hook", "a", "b")]
        hooked, *others = [call.result() for call in calls]
    assert [told.text for told in others] == ["echo: a", "echo: b"]
    assert hooked.failure is not None
    assert hooked.failure["message"].startswith("code of the agent ended the call with SystemExit: hooked; ")
    assert "request_id" in hooked.failure["message"]


def test_an_agent_that_cannot_be_made_is_said_in_one_line(tmp_path: Path) -> None:
    source = HEAD.replace("super().__init__(*args, **options)", "sys.exit('no disk')")
    with run_worker(project(tmp_path, agents=source), ready=False) as worker:
        worker.wait_until(lambda it: it.ended)
        assert worker.reports[-1].message.endswith(": SystemExit: no disk")  # type: ignore[union-attr]
