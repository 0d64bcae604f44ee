"""What the model says in the course of a turn: all of it reaches the caller, in its order, the answer last."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from mcp_types import ImageContent, TextContent

from fakes.downstream import run_downstream
from fakes.llm_stub import Asked, Call, LlmStub, Turn, run_llm_stub
from support.load.streams import answer_in, streamed
from support.worker.agent_kinds import AGENTS, HISTORY, answer, who
from support.worker.conversation.llm import KEY, config, spec
from support.worker.process import RunningWorker, run_worker
from support.worker.project import MODES, call, project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mcp_types import CallToolResult

LOOK = Call("tools__echo", {"text": "fact"})


def texts(result: CallToolResult) -> list[str]:
    """The texts of a result that is no error."""
    assert not result.is_error, result
    return [block.text for block in result.content if isinstance(block, TextContent)]


def speaking(asked: Asked) -> Turn:
    """As in the tests of all kinds of agents, but that a model says so when it calls a tool; beta does that, too."""
    if who(asked) == "beta" and LOOK.tool in asked.tools and not asked.tool_results:
        return Turn(text="beta looks", calls=(LOOK,))
    turn = answer(asked)
    return replace(turn, text=f"{who(asked)} looks") if turn.calls else turn


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        ("alpha", ["alpha looks", "alpha says so"]),
        ("manager", ["manager looks", "manager says so"]),
        ("custom", ["custom says so"]),
        ("chain", ["beta looks", "beta says so"]),
        ("router", ["beta looks", "beta says so"]),
        ("parallel", ["judge says so"]),
        ("refined", ["alpha looks", "alpha says better"]),
        ("maker", ["beta looks", "beta says so"]),
        ("planner", ["the plan's result"]),
        ("orchestrator", ["the plan's result"]),
    ],
)
def test_the_texts_of_an_agent_of_this_kind(tmp_path: Path, agent: str, expected: list[str]) -> None:
    source = AGENTS.replace('instruction="You are beta.")', 'instruction="You are beta.", servers=["tools"])')
    assert source != AGENTS
    with run_llm_stub(answer=speaking) as stub, run_downstream() as tools:
        servers = {"tools": {"transport": "http", "url": tools.url}}
        directory = project(tmp_path, agents=source, servers=servers, config=config(stub))
        with run_worker(directory, agent=agent, **spec()) as worker:
            assert texts(call(worker.url, "auto", agent, message="who am I?", history=HISTORY)) == expected
            assert answer_in(asyncio.run(streamed(worker, "who am I?", agent))) == "\n\n".join(expected)


def test_a_cumulative_chain_puts_its_answer_together(tmp_path: Path) -> None:
    with run_llm_stub(answer=speaking) as stub, run_downstream() as tools:
        servers = {"tools": {"transport": "http", "url": tools.url}}
        directory = project(tmp_path, agents=AGENTS, servers=servers, config=config(stub))
        with run_worker(directory, agent="cumulative", **spec()) as worker:
            (only,) = texts(call(worker.url, "auto", "cumulative", message="who am I?"))
            assert "alpha says so" in only
            assert "beta says so" in only
            assert "alpha looks" not in only


def anthropic(stub: LlmStub) -> str:
    """A configuration whose default model is the stub's, by the other API."""
    return (
        "default_model: anthropic.stub-model\n"
        f"anthropic: {{api_key: {KEY}, base_url: '{stub.anthropic_url}'}}\n"
        "llm_retries: 0\n"
    )


@pytest.fixture(scope="module", params=["openai", "anthropic"])
def worker(
    request: pytest.FixtureRequest, stub: LlmStub, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningWorker]:
    lines = config(stub) if request.param == "openai" else anthropic(stub)
    with run_downstream() as tools:
        servers = {"tools": {"transport": "http", "url": tools.url}}
        directory = project(tmp_path_factory.mktemp("project"), servers=servers, config=lines)
        with run_worker(directory, **spec() | {"default_model": lines.split()[1]}) as running:
            yield running


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        (("Let me look into that.", "It is so."), ["Let me look into that.", "It is so."]),
        (("one", "two\n\nstill two", "", "four"), ["one", "two\n\nstill two", "four"]),
        (("", "It is so."), ["It is so."]),
    ],
    ids=["once", "several", "silent"],
)
def test_each_text_is_a_block_and_the_answer_the_last(
    worker: RunningWorker, stub: LlmStub, mode: str, turns: tuple[str, ...], expected: list[str]
) -> None:
    *before, last = turns
    stub.script(*(Turn(text=text, calls=(LOOK,)) for text in before), Turn(text=last))
    result = call(worker.url, mode, "demo", message="x", history=HISTORY)
    assert texts(result) == expected
    assert not any(isinstance(block, ImageContent) for block in result.content)
