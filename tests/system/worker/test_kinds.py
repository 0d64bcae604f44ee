"""Agents of every kind of fast-agent's behind `send_message`: each knows the history, answers, and is counted whole."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from fakes.downstream import run_downstream
from fakes.llm_stub import Asked, Call, LlmStub, Turn, Usage, run_llm_stub
from support.worker.process import RunningWorker, run_worker
from support.worker.project import call, project, text
from system.worker.test_llm import config, metric, spec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

AGENTS = """
from fast_agent import FastAgent
from fast_agent.agents import McpAgent

fast = FastAgent("tests")


@fast.agent(name="alpha", instruction="You are alpha.", servers=["tools"])
async def alpha(): ...


@fast.agent(name="beta", instruction="You are beta.")
async def beta(): ...


@fast.agent(name="judge", instruction="You are the judge.")
async def judge(): ...


@fast.agent(name="manager", instruction="You are the manager.", agents=["alpha"])
async def manager(): ...


class Twice(McpAgent):
    async def generate_impl(self, messages, request_params=None, tools=None):
        await super().generate_impl(messages, request_params, tools)
        return await super().generate_impl(messages, request_params, tools)


@fast.custom(Twice, name="custom", instruction="You are custom.")
async def custom(): ...


@fast.chain(name="chain", sequence=["alpha", "beta"])
async def chain(): ...


@fast.chain(name="cumulative", sequence=["alpha", "beta"], cumulative=True)
async def cumulative(): ...


@fast.router(name="router", agents=["alpha", "beta"])
async def router(): ...


@fast.parallel(name="parallel", fan_out=["alpha", "beta"], fan_in="judge")
async def parallel(): ...


@fast.evaluator_optimizer(name="refined", generator="alpha", evaluator="judge")
async def refined(): ...


@fast.maker(name="maker", worker="beta", k=2)
async def maker(): ...


@fast.iterative_planner(name="planner", agents=["alpha", "beta"])
async def planner(): ...


@fast.orchestrator(name="orchestrator", agents=["alpha", "beta"])
async def orchestrator(): ...
"""

HISTORY = [
    {"role": "user", "content": "my name is Ada"},
    {"role": "assistant", "content": "hello Ada"},
]
USAGE = Usage(input=7, output=3)


def who(asked: Asked) -> str:
    """Which agent asks, by its instruction."""
    system = next(m["content"] for m in asked.body["messages"] if m["role"] == "system")
    for name in ("alpha", "beta", "the judge", "the manager", "custom"):
        if system.startswith(f"You are {name}."):
            return name.removeprefix("the ")
    return "itself"


def reply(value: str | dict[str, Any]) -> Turn:
    return Turn(text=value if isinstance(value, str) else json.dumps(value), usage=USAGE)


def answer(asked: Asked) -> Turn:
    """What each agent's model says; alpha looks something up first."""
    name = who(asked)
    if name == "alpha" and not asked.tool_results:
        return Turn(calls=(Call("tools__echo", {"text": "fact"}),), usage=USAGE)
    if name == "manager" and not asked.tool_results:
        return Turn(calls=(Call(asked.tools[0], {"message": "look it up"}),), usage=USAGE)
    if name == "judge" and "expert evaluator" in asked.user:
        good = "better" in asked.user
        rating = {
            "rating": "GOOD" if good else "POOR",
            "feedback": "be better",
            "needs_improvement": not good,
        }
        return reply(rating | {"focus_areas": []})
    if name == "itself":
        return reply(decision(asked))
    return reply(f"{name} says {'better' if 'be better' in asked.user else 'so'}")


def decision(asked: Asked) -> str | dict[str, Any]:
    """What a router or a planner decides."""
    if "router" in json.dumps(asked.body["messages"][0]).lower():
        return {"agent": "beta", "confidence": "high", "reasoning": "because"}
    if "alpha says" in asked.user:
        if asked.body.get("response_format"):
            return {"description": "done", "tasks": [], "is_complete": True}
        return "the plan's result"
    tasks = [{"description": "find out", "agent": "alpha"}, {"description": "think", "agent": "beta"}]
    return {"description": "first", "tasks": tasks, "is_complete": False}


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
            assert "no answer" in text(result) or "out of order" in text(result)
            assert metric(worker, f'pallas_send_message_total{{agent="{agent}",outcome="error"}}') == 1
