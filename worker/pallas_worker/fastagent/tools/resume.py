"""A turn that ended before tool calls, taken up there: the calls run, and the agent goes on with their results.

Knows fast-agent's tool loop from inside; must not know how conversations are kept.
"""
# ruff: noqa: SLF001 - here fast-agent's private names may be used

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fast_agent.agents.tool_runner import ToolRunner

from pallas_worker.fastagent.tools.guard import may_hold
from pallas_worker.interface.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fast_agent.types import PromptMessageExtended, RequestParams
    from mcp_types import CallToolResult


def pending_in(
    history: Sequence[PromptMessageExtended],
) -> tuple[PromptMessageExtended, Mapping[str, CallToolResult]]:
    """The message at the end of a history whose calls have no results, or not all; and those results that there are.

    Raises:
        ArgumentError: the history ends otherwise.
    """
    *_, before, last = (None, None, *history)
    given = (last.tool_results if last is not None else None) or {}
    pending = before if given else last
    if pending is None or pending.role != "assistant" or not (pending.tool_calls or {}).keys() - given.keys():
        raise ArgumentError(
            "there is nothing to take up: the history ends with no call that lacks its result", "resume"
        )
    return pending, given


async def resume(
    agent: Any,
    pending: PromptMessageExtended,
    given: Mapping[str, CallToolResult],
    params: RequestParams,
) -> PromptMessageExtended:
    """The agent's answer, after the calls of `pending`, which end its history, and whatever follows from them.

    The first round is fast-agent's own tool loop, entered in the middle: with the agent's hooks, and with all that the
    loop makes of results (media, an error that ends the turn). The guard judges the calls as it does all others, but
    for being held: to take the turn up is to approve them.

    Args:
        given: results of those calls that the caller has answered in the tool's place; they do not run.
    """
    calls = {id_: call for id_, call in (pending.tool_calls or {}).items() if id_ not in given}
    asked = pending.model_copy(update={"tool_calls": calls})
    params = agent.llm.get_request_params(params) if agent.llm is not None else params
    loop = ToolRunner(
        agent=agent, messages=[], request_params=params, hooks=agent._build_tool_runner_hooks(params)
    )
    loop._pending_tool_request = asked
    loop._last_message = pending.model_copy(update={"content": list(pending.content)})
    with may_hold(agent, asked):
        await loop._ensure_tool_response_staged()
    if loop.is_done:
        answer = loop._consume_staged_terminal_response() or loop.last_message
        agent.last_turn_messages = [*loop.turn_messages]
        return answer or pending
    messages = [
        _with(message, pending, given) if message.tool_results else message for message in loop.delta_messages
    ]
    before = [] if loop._use_history_enabled() else _begun(agent.message_history)
    with may_hold(agent):
        try:
            answered: PromptMessageExtended = await agent.generate([*before, *messages], params)
        finally:
            # Without history, the messages before the calls go with the request; they are no news.
            agent.last_turn_messages = agent.last_turn_messages[len(before) + (1 if before else 0) :]
    return answered


def _begun(history: Sequence[PromptMessageExtended]) -> list[PromptMessageExtended]:
    """The messages of the newest turn before its last one."""
    begin = max((place for place, one in enumerate(history) if _begins(one)), default=0)
    return list(history[begin:-1])


def _begins(message: PromptMessageExtended) -> bool:
    """Whether it is the user's, and not made of a tool's results."""
    return message.role == "user" and not message.tool_results and not message.channels


def _with(
    message: PromptMessageExtended, pending: PromptMessageExtended, given: Mapping[str, CallToolResult]
) -> PromptMessageExtended:
    """The results of the calls together with the given ones, in the order of the calls."""
    results = {**(message.tool_results or {}), **given}
    return message.model_copy(
        update={"tool_results": {id_: results[id_] for id_ in pending.tool_calls or () if id_ in results}}
    )
