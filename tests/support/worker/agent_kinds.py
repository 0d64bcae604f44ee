"""A module with an agent of every kind that fast-agent has, and a model that answers each of them."""

from __future__ import annotations

import json
from typing import Any

from fakes.llm_stub import Asked, Call, Turn, Usage

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


CARDS = {
    "alpha.md": "---\nname: alpha\nservers: [tools]\n---\nYou are alpha.\n",
    "beta.yaml": "type: agent\nname: beta\ninstruction: You are beta.\n",
    "judge.md": "---\nname: judge\n---\nYou are the judge.\n",
    "manager.md": "---\nname: manager\nagents: [alpha]\n---\nYou are the manager.\n",
    "chain.md": "---\ntype: chain\nname: chain\nsequence: [alpha, beta]\n---\n",
    "cumulative.yml": "type: chain\nname: cumulative\nsequence: [alpha, beta]\ncumulative: true\n",
    "router.md": "---\ntype: router\nname: router\nagents: [alpha, beta]\n---\nYou are a router.\n",
    "parallel.md": "---\ntype: parallel\nname: parallel\nfan_out: [alpha, beta]\nfan_in: judge\n---\n",
    "refined.md": "---\ntype: evaluator_optimizer\nname: refined\ngenerator: alpha\nevaluator: judge\n---\n",
    "maker.yaml": "type: MAKER\nname: maker\nworker: beta\nk: 2\n",
    "planner.md": "---\ntype: iterative_planner\nname: planner\nagents: [alpha, beta]\n---\n",
    "orchestrator.md": "---\ntype: orchestrator\nname: orchestrator\nagents: [alpha, beta]\n---\n",
    "README.md": "These are the agents.\n",
}
"""The same as agent cards, but for the one of a class of its own."""
