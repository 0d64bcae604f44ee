"""Who asks back: servers get the agent's LLM only where the definition lets them, and nobody gets a human."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from fakes.downstream import run_downstream
from fakes.llm_stub import Asked, LlmStub, Turn, Usage, by_request, run_llm_stub
from support.worker.conversation.llm import config, metric, spec
from support.worker.process import RunningWorker, run_worker
from support.worker.project import call, project, text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fakes.downstream import Era

HUMAN = """
from fast_agent import FastAgent
fast = FastAgent("tests")
@fast.agent(name="demo", instruction="You ask.", human_input=True)
async def demo(): ...
"""
HANDLER = """
from fast_agent import FastAgent
from mcp_types import ElicitResult
fast = FastAgent("tests")

async def answer(context, params):
    return ElicitResult(action="accept", content={"colour": "green"})

@fast.agent(name="demo", instruction="You ask.", servers=["tools"], elicitation_handler=answer)
async def demo(): ...
"""
TURNS = 'pallas_llm_turns_total{agent="demo",model="stub-model"}'
TOKENS = 'pallas_llm_tokens_total{agent="demo",kind="output",model="stub-model"}'


@pytest.fixture(scope="module")
def stub() -> Iterator[LlmStub]:
    with run_llm_stub(answer=answered) as running:
        yield running


def answered(asked: Asked) -> Turn:
    """As a model that says how long an answer is by its tokens."""
    turn = by_request(asked)
    return Turn(text=turn.text, calls=turn.calls, usage=Usage(output=7))


def ask(worker: RunningWorker, tool: str, **arguments: object) -> str:
    return text(call(worker.url, "auto", "demo", message=f"CALL tools__{tool} {json.dumps(arguments)}"))


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize(
    ("settings", "sampling", "allowed"),
    [
        ("", {}, False),
        ("auto_sampling: false\n", {}, False),
        ("auto_sampling: true\n", {}, True),
        ("", {"sampling": {"model": "openai.stub-model"}}, True),
        ("", {"sampling": {}}, True),
        ("auto_sampling: false\n", {"sampling": {}}, True),
    ],
)
def test_a_server_may_use_the_llm_where_the_definition_lets_it(
    tmp_path: Path, stub: LlmStub, era: Era, settings: str, sampling: dict[str, object], allowed: bool
) -> None:
    with run_downstream(asking=True, era=era) as tools:
        servers = {"tools": {"transport": "http", "url": tools.url, **sampling}}
        project(tmp_path, servers=servers, config=config(stub) + settings)
        with run_worker(tmp_path, **spec()) as worker:
            assert ("sampling" in ask(worker, "can")) is allowed
            before, turns, tokens = len(stub.asked), metric(worker, TURNS), metric(worker, TOKENS)
            answer = ask(worker, "think", text="deeply")
            asked = [asked.user for asked in stub.asked[before:]]
            assert ("thought: echo: deeply" in answer) is allowed
            assert ("deeply" in asked) is allowed
            assert metric(worker, TURNS) - turns == len(asked) == (3 if allowed else 2)
            assert metric(worker, TOKENS) - tokens == 7 * len(asked)


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_no_human_is_promised_where_nobody_can_be_asked(tmp_path: Path, stub: LlmStub, era: Era) -> None:
    with run_downstream(asking=True, era=era) as tools:
        servers = {"tools": {"transport": "http", "url": tools.url}}
        project(tmp_path, servers=servers, config=config(stub))
        with run_worker(tmp_path, **spec()) as worker:
            assert ask(worker, "can") == 'tools said: {"result":[]}'
            answer = ask(worker, "ask", question="Which colour?").lower()
            assert "elicitation" in answer
            assert "cancel" not in answer
            assert "declined" not in answer


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_an_agents_own_handler_is_asked(tmp_path: Path, stub: LlmStub, era: Era) -> None:
    with run_downstream(asking=True, era=era) as tools:
        servers = {"tools": {"transport": "http", "url": tools.url}}
        project(tmp_path, agents=HANDLER, servers=servers, config=config(stub))
        with run_worker(tmp_path, **spec()) as worker:
            assert "elicitation" in ask(worker, "can")
            assert ask(worker, "ask", question="Which colour?") == 'tools said: {"result":"accept: green"}'


def test_an_agent_that_asks_its_human_is_told_that_there_is_none(tmp_path: Path, stub: LlmStub) -> None:
    with run_worker(project(tmp_path, agents=HUMAN, config=config(stub)), **spec()) as worker:
        call(worker.url, "auto", "demo", message="x")
        (tool,) = stub.asked[-1].tools
        form = {"message": "Which?", "fields": [{"name": "colour", "type": "text"}]}
        answer = text(call(worker.url, "auto", "demo", message=f"CALL {tool} {json.dumps(form)}"))
        assert "cannot be asked" in answer
        assert "cancel" not in answer.lower()
