"""What each of fast-agent's kinds of agents does with a conversation: how it gets it, who sees images, who answers.

Knows fast-agent's kinds of agents and their definitions; must not know models, instances or requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fast_agent.agents.agent_types import AgentType
from fast_agent.llm.provider_types import Provider
from fast_agent.types import LlmStopReason, PromptMessageExtended
from mcp_types import ContentBlock, ImageContent, TextContent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_PASS_ON = {
    AgentType.CHAIN,
    AgentType.ROUTER,
    AgentType.PARALLEL,
    AgentType.EVALUATOR_OPTIMIZER,
    AgentType.MAKER,
}
"""They hand on the messages that they are given, and never look at a history of their own."""

_ASK_NOTHING = _PASS_ON - {AgentType.ROUTER}
"""They have no model of their own; a router's decides whose the message is."""

_PLAN = {AgentType.ORCHESTRATOR, AgentType.ITERATIVE_PLANNER}
"""They read the text of the last message as their objective, and nothing else."""

_JUDGE = {AgentType.EVALUATOR_OPTIMIZER, AgentType.MAKER}
"""They have an answer made again until it is good."""

_SPEAKERS = {"user": "User", "assistant": "You"}


def messages_for(
    kind: AgentType | None, history: Sequence[PromptMessageExtended], message: PromptMessageExtended
) -> list[PromptMessageExtended]:
    """What an agent of this kind has to be given, so that it knows the whole conversation.

    A plain agent has its history loaded beforehand, so that it is given the new message alone.
    """
    if kind in _PASS_ON:
        return [*history, message]
    if kind in _PLAN and history:
        text = TextContent(type="text", text=_as_objective(history, message))
        rest = [block for block in message.content if not isinstance(block, TextContent)]
        return [PromptMessageExtended(role="user", content=[text, *rest])]
    return [message]


def own_words(
    kind: AgentType | None, history: Iterable[PromptMessageExtended]
) -> list[PromptMessageExtended]:
    """The conversation as an agent of this kind can use it: all of it, or what was said where it has no tools itself.

    The agents that it is made of have tools of their own; providers refuse calls of tools that a model does not have.
    """
    if kind not in _PASS_ON | _PLAN:
        return list(history)
    said = (
        message.model_copy(update={"tool_calls": None, "tool_results": None, "channels": None})
        for message in history
    )
    return [message for message in said if message.content]


def models_needed(agent: str, kind: AgentType | None, agents: Iterable[str]) -> tuple[str, ...]:
    """Those of the agents of an instance without whose models an answer of `agent` is none, though it looks like one.

    A plain agent says so itself, and can make do with a child that fails: to it that is a failed tool.
    """
    if kind in _PASS_ON:
        return tuple(agents)
    return (agent,) if kind in _PLAN else ()


def own_turn(answer: PromptMessageExtended, agent: Any) -> Sequence[PromptMessageExtended]:
    """The messages of the turn that an agent's answer ends, if they are all its own; none for what is made of others,
    nor where an agent's code says something else than its model.

    A turn that has had all its rounds of tool calls ends with the results of the answer's own.
    """
    if getattr(agent, "agent_type", None) in _PASS_ON | _PLAN:
        return ()
    turn: Sequence[PromptMessageExtended] = getattr(agent, "last_turn_messages", ())
    if answer.stop_reason is LlmStopReason.MAX_ITERATIONS:
        same = (m for m in turn[-2:] if m.role == "assistant" and m.all_text() == answer.all_text())
        return turn if any(True for _ in same) else ()
    return turn if turn and turn[-1].all_text() == answer.all_text() else ()


def may_be_held(kind: AgentType | None) -> bool:
    """Whether a turn of an agent of this kind can end before a tool call, and go on from there: it is its own loop."""
    return kind not in _PASS_ON and kind not in _PLAN


def turn_behind(answer: PromptMessageExtended, agent: Any) -> Sequence[PromptMessageExtended]:
    """The messages of the turn that an agent's answer ends: its own, or that of the agent whose answer it hands on.

    None where the answer is put together from several agents': by a planner, or a cumulative chain.
    """
    kind = getattr(agent, "agent_type", None)
    if kind in _PLAN:
        return ()
    if kind not in _PASS_ON:
        return getattr(agent, "last_turn_messages", ())
    for part in _last_speakers(kind, agent):
        turn = turn_behind(answer, part)
        if turn and turn[-1].all_text() == answer.all_text():
            return turn
    return ()


def speakers(agent: Any) -> frozenset[str]:
    """The names of the agents whose words are the answer of `agent` while they are spoken.

    None where only the end shows what the answer is: of planners, which put it together; of those that judge it.
    """
    kind = getattr(agent, "agent_type", None)
    if kind in _PLAN or kind in _JUDGE:
        return frozenset()
    if kind not in _PASS_ON:
        return frozenset({agent.name})
    last = _last_speakers(kind, agent)
    if kind is AgentType.CHAIN and any(part in agent.agents[:-1] for part in last):
        return frozenset()  # it speaks before its answer, too
    return frozenset[str]().union(*map(speakers, last))


def answering(agent: Any) -> Iterator[Any]:
    """The agents whose own words are the answer of `agent`: itself, or those of the parts that it hands on to."""
    kind = getattr(agent, "agent_type", None)
    if kind not in _PASS_ON:
        yield agent
        return
    parts = _last_speakers(kind, agent)
    if kind is AgentType.CHAIN and agent.cumulative:
        parts = agent.agents
    elif kind is AgentType.PARALLEL and parts[0].name == f"{agent.name}_fan_in":
        parts = agent.fan_out_agents  # fast-agent's own puts their answers together
    for part in parts:
        yield from answering(part)


def _last_speakers(kind: AgentType | None, agent: Any) -> Sequence[Any]:
    """Whose answer may be that of an agent that is made of others."""
    match kind:
        case AgentType.CHAIN:
            return () if agent.cumulative else agent.agents[-1:]
        case AgentType.ROUTER:
            return tuple(agent.agents)
        case AgentType.PARALLEL:
            return (agent.fan_in_agent,)
        case AgentType.EVALUATOR_OPTIMIZER:
            return (agent.generator_agent,)
        case AgentType.MAKER:
            return (agent.worker_agent,)
        case _:
            return ()


def converses(agent: Any) -> bool:
    """Whether an agent has a conversation of its own with a model, in which it can be asked again."""
    return (
        getattr(agent, "agent_type", None) not in _PASS_ON | _PLAN and getattr(agent, "llm", None) is not None
    )


def writer(agent: Any, agents: Mapping[str, Any]) -> Any:
    """The LLM that can put the answer of an agent that is made of others into another form; None if there is none."""
    kind = getattr(agent, "agent_type", None)
    own = () if kind is AgentType.ROUTER else (agent,)  # a router's is told to choose, and nothing else
    for each in (*_last_speakers(kind, agent), *own, *agents.values()):
        llm = getattr(each, "llm", None)
        if llm is not None and llm.provider is not Provider.FAST_AGENT:  # which only repeats
            return llm
    return None


def asks_a_model(definition: Mapping[str, Any]) -> bool:
    """Whether an agent of this definition asks a model itself, and does not only hand on what others say."""
    return _kind(definition) not in _ASK_NOTHING


def image_readers(agent: str, definitions: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, bool]]:
    """The agents that get to see the images of a message to `agent`, each with whether it can at all.

    False stands for a planner, which takes the text and leaves the rest, whatever its model can do. Agents
    that only get what other agents have said are not among them.
    """
    data = definitions[agent]
    kind = _kind(data)
    if kind in _PLAN:
        yield agent, False
        return
    parts = _first_readers(kind, data)
    if kind is AgentType.ROUTER and len(parts) > 1:
        yield agent, True  # its own model reads the message to decide whose it is
    if kind not in _PASS_ON:
        yield agent, True
    for part in parts:
        if part in definitions:
            yield from image_readers(part, definitions)


def _first_readers(kind: AgentType | None, data: Mapping[str, Any]) -> tuple[str, ...]:
    match kind:
        case AgentType.CHAIN:
            sequence = tuple(data.get("sequence") or ())
            return sequence if data.get("cumulative") else sequence[:1]
        case AgentType.ROUTER:
            return tuple(data.get("router_agents") or ())
        case AgentType.PARALLEL:
            return tuple(data.get("fan_out") or ())
        case AgentType.EVALUATOR_OPTIMIZER:
            return tuple(filter(None, (data.get("generator"),)))
        case AgentType.MAKER:
            return tuple(filter(None, (data.get("worker"),)))
        case _:
            return ()


def _kind(data: Mapping[str, Any]) -> AgentType | None:
    try:
        return AgentType(data.get("type") or "")
    except ValueError:
        return None


def _as_objective(history: Sequence[PromptMessageExtended], message: PromptMessageExtended) -> str:
    rows = "\n\n".join(f"{_SPEAKERS[row.role]}: {_text(row.content)}" for row in history)
    return f"The conversation so far:\n\n{rows}\n\nThe user says now:\n\n{message.all_text()}"


def _text(content: Sequence[ContentBlock]) -> str:
    """The text of a message, with its images named where they stood."""
    parts = []
    for block in content:
        if isinstance(block, TextContent):
            parts.append(block.text)
        elif isinstance(block, ImageContent):
            parts.append("[an image]")
    return "\n".join(parts)
