"""What every tool call of a model passes before it runs: of each agent of an instance, and of each kind of tool.

Knows fast-agent's agents; must not know why a call is refused. Sampling is no tool call.
"""

from __future__ import annotations

import functools
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from fast_agent.agents import mcp_agent
from fast_agent.agents.mcp_agent import McpAgent
from fast_agent.agents.tool_agent import ToolAgent
from fast_agent.agents.workflow.agents_as_tools_agent import AgentsAsToolsAgent
from fast_agent.types import PromptMessageExtended
from mcp_types import CallToolResult, TextContent

from pallas_common.logs.setup import get_logger
from pallas_worker.fastagent.tool_calls import refusal, resolve_name

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fast_agent.types import RequestParams
    from mcp_types import CallToolRequest

    type RunTools = Callable[..., Awaitable[PromptMessageExtended]]

GUARDED: tuple[type[Any], ...] = (ToolAgent, McpAgent, AgentsAsToolsAgent)
"""The classes that run tools; each has a method of its own for it, which may call its parent's."""

_log = get_logger("pallas.worker.fastagent")
_judged: ContextVar[tuple[CallToolRequest, ...]] = ContextVar("judged", default=())
"""The calls that have passed, while they run: each is judged once, however many of those methods it goes through."""


def guard_tools() -> None:
    """Put the guard before the tools of all agents that this process makes; again, it does nothing more."""
    for owner in GUARDED:
        run = vars(owner)["run_tools"]
        if not hasattr(run, "__wrapped__"):
            owner.run_tools = _guarded(run)
    mcp_agent.__dict__["build_mcp_tool_route"] = _route_as_named


_build_route: Any = getattr(mcp_agent, "build_mcp_tool_route", None)


@functools.wraps(_build_route)
def _route_as_named(*, is_filesystem_runtime_tool: bool, **request: Any) -> Any:
    """Let a file tool of the agent's own run when the model names it.

    fast-agent would run any server's tool of that name in its place, also one that a filter hides.
    """
    del is_filesystem_runtime_tool
    return _build_route(**request, is_filesystem_runtime_tool=False)


def _guarded(run: RunTools) -> RunTools:
    @functools.wraps(run)
    async def run_tools(
        agent: ToolAgent, request: PromptMessageExtended, request_params: RequestParams | None = None
    ) -> PromptMessageExtended:
        calls = request.tool_calls or {}
        passed = _judged.get()
        if all(any(call is other for other in passed) for call in calls.values()):
            return await run(agent, request, request_params)
        allowed, refused = await _judge(agent, calls)
        if not allowed:
            return PromptMessageExtended(role="user", tool_results=refused)
        token = _judged.set((*passed, *allowed.values()))
        try:
            message = await run(agent, request.model_copy(update={"tool_calls": allowed}), request_params)
        finally:
            _judged.reset(token)
        if refused:
            results = (message.tool_results or {}) | refused
            message.tool_results = {id_: results[id_] for id_ in calls if id_ in results}
        return message

    return run_tools


async def _judge(
    agent: ToolAgent, calls: dict[str, CallToolRequest]
) -> tuple[dict[str, CallToolRequest], dict[str, CallToolResult]]:
    """The calls that may run, under the names that the agent's tools have; and the results of those that may not."""
    listed = [tool.name for tool in (await agent.list_tools()).tools]
    allowed, refused = {}, {}
    for id_, request in calls.items():
        name = resolve_name(request.params.name, listed)
        if name is None:
            refused[id_] = _error(agent, refusal(request.params.name, listed))
        elif name == request.params.name:
            allowed[id_] = request
        else:
            params = request.params.model_copy(update={"name": name})
            allowed[id_] = request.model_copy(update={"params": params})
    return allowed, refused


def _error(agent: ToolAgent, reason: str) -> CallToolResult:
    """The result that the model gets for a call that does not run; it is counted for the instance."""
    _log.warning(f"{agent.name}: {reason}")
    attachments = getattr(agent.context, "pallas_attachments", None)
    if attachments is not None:
        attachments.refused_calls += 1
    return CallToolResult(content=[TextContent(type="text", text=reason)], is_error=True)
