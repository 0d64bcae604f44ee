"""Which agents a check tries: one of those that are alike, so many at most, or those that are named."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pallas_check.sampling import MOST_DECLARED, Sample, sample
from pallas_common.protocol.agent.definition import AgentDefinition, LlmDefinition, ServerDefinition
from pallas_common.protocol.agent.source import AgentSource
from pallas_registry.deployment.model import Agent

if TYPE_CHECKING:
    from collections.abc import Mapping

SMALL = LlmDefinition(name="small", provider="openai", model="m")
SERVER = ServerDefinition(name="web", settings={"transport": "http", "url": "http://127.0.0.1:9"})
PLAIN = AgentDefinition(
    instruction="Be short.", llm=SMALL, servers=(SERVER,), parameters={"temperature": 0.1}
)


def declared(name: str, **fields: Any) -> Agent:
    return Agent(name=name, definition=replace(PLAIN, **fields), port=None, title=name, description="")


def by_name(*agents: Agent) -> Mapping[str, Agent]:
    return {agent.name: agent for agent in agents}


CODE = [
    Agent(name=name, module=AgentSource("module", "agents.x"), port=None, title=name, description="")
    for name in ("x", "y")
]


def test_of_those_that_are_alike_one_is_tried_and_all_of_agents_yaml() -> None:
    same = {"instruction": "Be long.", "parameters": {"temperature": 0.9}, "max_iterations": 3}
    agents = by_name(declared("a"), CODE[0], declared("b", **same), CODE[1], declared("c"))
    assert sample(agents) == Sample({"a": ("b", "c"), "x": (), "y": ()})
    assert list(sample(agents).tried) == ["a", "x", "y"]


OTHERS = {
    "llm": declared("b", llm=replace(SMALL, model="n")),
    "models": declared("b", models=(SMALL,)),
    "servers": declared("b", servers=(replace(SERVER, settings={"command": "npx"}),)),
    "parameters": declared("b", parameters={"seed": 1}),
    "python": replace(declared("b"), python="/opt/python"),
    "env": replace(declared("b"), env={"HTTPS_PROXY": "http://127.0.0.1:9"}),
    "memory_limit": replace(declared("b"), memory_limit=1 << 28),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_what_can_be_wrong_is_tried(other: Agent) -> None:
    assert sample(by_name(declared("a"), other)) == Sample({"a": (), "b": ()})


def test_so_many_are_tried_and_those_first_that_most_are_like() -> None:
    different = [declared(f"a{n}", llm=replace(SMALL, name=f"llm{n}")) for n in range(MOST_DECLARED + 4)]
    tried, left_out = sample(by_name(*different, declared("b"), declared("c")))
    assert (len(tried), tried["b"]) == (MOST_DECLARED, ("c",))
    assert left_out == tuple(agent.name for agent in different[MOST_DECLARED - 1 :])


def test_those_that_are_named_are_tried() -> None:
    agents = by_name(declared("a"), declared("b"), declared("c"), *CODE)
    assert sample(agents, {"c", "b"}) == Sample({"b": (), "c": ()})
