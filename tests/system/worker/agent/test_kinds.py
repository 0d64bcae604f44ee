"""Agents of every kind of fast-agent's behind `send_message`: each knows the history, answers, and is counted whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fakes.downstream import run_downstream
from fakes.llm_stub import Asked, LlmStub, Turn, run_llm_stub
from support.worker.agent_kinds import AGENTS, HISTORY, USAGE, answer, who
from support.worker.conversation.llm import config, metric, spec
from support.worker.process import RunningWorker, run_worker
from support.worker.project import call, project, text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def stub() -> Iterator[LlmStub]:
    with run_llm_stub(answer=answer) as running:
        yield running


@pytest.mark.parametrize(
    ("agent", "expected", "turns"),
    [
        ("alpha", "alpha says so", 2),
        ("manager", "manager says so", 4),
        ("custom", "custom says so", 2),
        ("chain", "beta says so", 3),
        ("cumulative", "beta says so", 3),
        ("router", "beta says so", 2),
        ("parallel", "judge says so", 4),
        ("refined", "alpha says better", 6),
        ("maker", "beta says so", 2),
        ("planner", "the plan's result", 6),
        ("orchestrator", "the plan's result", 6),
    ],
)
def test_an_agent_of_this_kind(tmp_path: Path, stub: LlmStub, agent: str, expected: str, turns: int) -> None:
    with run_downstream() as tools:
        servers = {"tools": {"transport": "http", "url": tools.url}}
        directory = project(tmp_path, agents=AGENTS, servers=servers, config=config(stub))
        with run_worker(directory, agent=agent, **spec()) as worker:
            before = len(stub.asked)
            result = call(worker.url, "auto", agent, message="who am I?", history=HISTORY)
            assert not result.is_error, text(result)
            assert expected in text(result)
            asked = stub.asked[before:]
            assert_conversation_is_known(agent, asked)
            assert len(asked) == turns, [who(one) for one in asked]
            assert_counted(worker, agent, turns)


def assert_conversation_is_known(agent: str, asked: list[Asked]) -> None:
    """Every model that hears the caller hears the whole conversation, as turns where it is asked for an answer."""
    hearing = [one for one in asked if "who am I?" in one.user and who(one) != "judge"]
    assert hearing
    deciding = [one for one in hearing if who(one) == "itself" and agent == "router"]
    for one in hearing:
        messages = one.body["messages"]
        if agent in ("planner", "orchestrator"):
            assert "User: my name is Ada\n\nYou: hello Ada" in one.user
        elif one not in deciding:
            said = [(m["role"], m["content"]) for m in messages[1:4]]
            assert said[:2] == [(row["role"], row["content"]) for row in HISTORY]
            assert said[2] == ("user", "who am I?")


def assert_counted(worker: RunningWorker, agent: str, turns: int) -> None:
    """The turns and tokens of all agents of the instance are the served agent's."""
    labels = f'agent="{agent}"'
    assert metric(worker, f'pallas_llm_turns_total{{{labels},model="stub-model"}}') == turns
    for kind, each in (("input", USAGE.input), ("output", USAGE.output)):
        series = f'pallas_llm_tokens_total{{{labels},kind="{kind}",model="stub-model"}}'
        assert metric(worker, series) == turns * each
    assert metric(worker, f'pallas_send_message_total{{{labels},outcome="ok"}}') == 1


@pytest.mark.parametrize(
    ("agent", "failing"),
    [
        ("chain", "alpha"),
        ("router", "itself"),
        ("parallel", "alpha"),
        ("refined", "judge"),
        ("planner", "itself"),
        ("manager", "manager"),
    ],
)
def test_a_model_that_fails_anywhere_is_an_error(tmp_path: Path, agent: str, failing: str) -> None:
    """fast-agent has the apology of one agent answered by the next, as if it were what the caller wanted."""

    def refuse(asked: Asked) -> Turn:
        return Turn(status=500, text="out of order") if who(asked) == failing else answer(asked)

    with run_llm_stub(answer=refuse) as stub, run_downstream() as tools:
        servers = {"tools": {"transport": "http", "url": tools.url}}
        directory = project(tmp_path, agents=AGENTS, servers=servers, config=config(stub))
        with run_worker(directory, agent=agent, **spec()) as worker:
            result = call(worker.url, "auto", agent, message="who am I?")
            assert result.is_error, text(result)
            assert "gave no answer" in text(result) or "failed (HTTP 500)" in text(result)
            assert metric(worker, f'pallas_send_message_total{{agent="{agent}",outcome="error"}}') == 1
