"""What each kind of agent gets of a conversation with tool calls, and which of its turns are a conversation."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from fast_agent.agents.agent_types import AgentType
from fast_agent.types import PromptMessageExtended
from mcp_types import CallToolRequest, CallToolRequestParams, CallToolResult, TextContent

from pallas_worker.agent.models.agent_kinds import own_turn, own_words

OF_OTHERS = (
    AgentType.CHAIN,
    AgentType.ROUTER,
    AgentType.PARALLEL,
    AgentType.EVALUATOR_OPTIMIZER,
    AgentType.MAKER,
    AgentType.ORCHESTRATOR,
    AgentType.ITERATIVE_PLANNER,
)


def says(role: Any, text: str, **fields: Any) -> PromptMessageExtended:
    content: list[Any] = [TextContent(type="text", text=text)] if text else []
    return PromptMessageExtended(role=role, content=content, **fields)


CALL = CallToolRequest(method="tools/call", params=CallToolRequestParams(name="add"))
CONVERSATION = [
    says("user", "hello"),
    says("assistant", "Look", tool_calls={"1": CALL}),
    says("user", "", tool_results={"1": CallToolResult(content=[])}),
    says("assistant", "", tool_calls={"1": CALL}),
    says("user", "", tool_results={"1": CallToolResult(content=[])}),
    says("assistant", "done"),
]


@pytest.mark.parametrize("kind", [AgentType.BASIC, AgentType.LLM, AgentType.CUSTOM, None])
def test_a_plain_agent_gets_all_of_a_conversation(kind: AgentType | None) -> None:
    assert own_words(kind, CONVERSATION) == CONVERSATION


@pytest.mark.parametrize("kind", OF_OTHERS)
def test_what_is_made_of_others_gets_what_was_said(kind: AgentType) -> None:
    messages = own_words(kind, CONVERSATION)
    assert messages == [says("user", "hello"), says("assistant", "Look"), says("assistant", "done")]


def test_the_turn_of_a_plain_agent_is_its_own() -> None:
    agent = SimpleNamespace(agent_type=AgentType.BASIC, last_turn_messages=CONVERSATION)
    assert own_turn(CONVERSATION[-1], agent) == CONVERSATION
    assert own_turn(says("assistant", "what its code makes of it"), agent) == ()


def test_others_have_none() -> None:
    for kind in OF_OTHERS:
        agent = SimpleNamespace(agent_type=kind, last_turn_messages=CONVERSATION)
        assert own_turn(CONVERSATION[-1], agent) == ()
    assert own_turn(CONVERSATION[-1], SimpleNamespace()) == ()
