"""What every tool call of a model passes before it runs: of each agent of an instance, and of each kind of tool.

Knows fast-agent's agents; must not know why a call is refused or held: that is in `rules`. Sampling is no tool call.

fast-agent has no single place that all calls go through. `run_tools` gets those of one message together and is where
they are judged: `call_tool` never sees a call of a child agent, and hooks of the tool loop miss what subagents do. The
beginning and the end of each call are seen at `call_tool`, and at the method that runs a child.
"""

from __future__ import annotations

import functools
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from fast_agent.agents import mcp_agent, tool_agent
from fast_agent.agents.mcp_agent import McpAgent
from fast_agent.agents.tool_agent import ToolAgent
from fast_agent.agents.workflow.agents_as_tools_agent import AgentsAsToolsAgent
from fast_agent.types import PromptMessageExtended
from mcp_types import CallToolResult, TextContent

from pallas_common.logs.setup import get_logger
from pallas_common.protocol.mcp.agent_tools import hidden_tools
from pallas_worker.fastagent.application import GUARDED
from pallas_worker.fastagent.current_call import current_call
from pallas_worker.fastagent.tools.arguments import UnreadableCall
from pallas_worker.fastagent.tools.results import whole_result
from pallas_worker.fastagent.tools.rules import (
    Hold,
    Patterns,
    PendingCall,
    Refuse,
    judge,
    refusal,
    resolve_name,
)
from pallas_worker.fastagent.tools.running import Counts, RunningCall, count
from pallas_worker.raised import OwnSignal, RaisedError, contained, run_contained

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence

    from fast_agent.config import Settings
    from fast_agent.types import RequestParams
    from mcp import Tool
    from mcp_types import CallToolRequest, ListToolsResult

    from pallas_worker.fastagent.tools.rules import Globs, Verdict
    from pallas_worker.interface.turn import TurnEvent

    type _Judged = tuple[CallToolRequest, PendingCall, Verdict]
    type Method = Callable[..., Awaitable[Any]]

_BESIDE_UNREADABLE = (
    "This call did not run, because another one of the same message cannot be read. Make the calls again."
)

_log = get_logger("pallas.worker.fastagent")
_passed: ContextVar[dict[str, tuple[CallToolRequest, RunningCall]]] = ContextVar("passed", default={})  # noqa: B039
"""The calls that have been let through and run, of the innermost message, by id; it is replaced, never changed.

Each call is judged once, however many of those methods it goes through.
"""
_holding: ContextVar[tuple[Any, PromptMessageExtended | None] | None] = ContextVar("holding", default=None)
"""The agent whose calls can be held, and that of its messages whose calls were approved and are not held again."""


class TurnHeld(OwnSignal):
    """The turn ends before the tool calls of its last message, none of which has run.

    It is no `Exception`: fast-agent would make a tool's result of that, and go on.
    """


@contextmanager
def may_hold(agent: Any, approved: PromptMessageExtended | None = None) -> Iterator[None]:
    """Within the block, the turn can end before a tool call of `agent`: then `TurnHeld` comes out of it. None: never.

    Calls of other agents, those that `agent` calls for example, are refused instead: a turn that has ended inside a
    tool could not be taken up. The calls of the message `approved` are not held.
    """
    token = _holding.set((agent, approved))
    try:
        yield
    finally:
        _holding.reset(token)


def guard_tools() -> None:
    """Put the guard before the tools of all agents that this process makes; again, it does nothing more."""
    for owner in GUARDED:
        _wrap(owner, "run_tools", _guarded)
        _wrap(owner, "call_tool", _followed)
        _wrap(owner, "list_tools", _listing_permitted)
    _wrap(tool_agent.__dict__["FunctionTool"], "run", _contained)
    _wrap(AgentsAsToolsAgent, "_run_child_tool_clone", _followed_child)
    _wrap(ToolAgent, "_tool_runner_llm_step", _with_allowed_tools)
    mcp_agent.__dict__["build_mcp_tool_route"] = _route_as_named
    McpAgent._programmatic_tool_runtime = _no_programmatic_tools  # type: ignore[method-assign,assignment]  # noqa: SLF001


def programmatic_tools_warnings(settings: Settings) -> Iterator[str]:
    """Say that model-written Python calls no tools where fast-agent's settings ask for it (`ptc: {enabled: true}`)."""
    if settings.ptc.enabled:
        yield (
            "ptc.enabled of fast-agent's configuration (or of the environment) has no effect: Python that a model "
            "writes would call tools past their filters; remove it"
        )


def _no_programmatic_tools(agent: McpAgent) -> None:
    """Give `agent` no tool that runs Python: the tools which that calls would never come to `run_tools`."""
    del agent


def _wrap(owner: type[Any], name: str, wrapped: Callable[[Method], Method]) -> None:
    method = vars(owner)[name]
    if not hasattr(method, "__wrapped__"):
        setattr(owner, name, wrapped(method))


_build_route: Any = getattr(mcp_agent, "build_mcp_tool_route", None)


@functools.wraps(_build_route)
def _route_as_named(*, is_filesystem_runtime_tool: bool, **request: Any) -> Any:
    """Let a file tool of the agent's own run when the model names it.

    fast-agent would run any server's tool of that name in its place, also one that a filter hides.
    """
    del is_filesystem_runtime_tool
    return _build_route(**request, is_filesystem_runtime_tool=False)


def _with_allowed_tools(step: Method) -> Method:
    """Tell a model of no tool that it may not call in this turn, and of an agent that it may ask by one name."""

    @functools.wraps(step)
    async def llm_step(
        agent: ToolAgent,
        messages: list[PromptMessageExtended],
        request_params: RequestParams | None = None,
        tools: list[Tool] | None = None,
    ) -> Any:
        allowed = _allowed()
        if allowed is not None and tools is not None:
            tools = [tool for tool in tools if allowed.match(tool.name)]
        if tools:
            hidden = _other_names(agent, {tool.name for tool in tools})
            tools = [tool for tool in tools if tool.name not in hidden]
        return await step(agent, messages, request_params=request_params, tools=tools)

    return llm_step


def _other_names(agent: ToolAgent, told: Collection[str]) -> frozenset[str]:
    """Those of the names which stand for an agent that has another one among them, by which models choose it."""
    connections = getattr(agent, "aggregator", None)
    if connections is None:
        return frozenset()
    catalog = connections.tool_catalog()
    schemas: dict[str, dict[str, tuple[str, object]]] = {}
    for name in told:
        if (found := catalog.namespaced_tool(name)) is not None:
            schemas.setdefault(found.server_name, {})[found.tool.name] = (name, found.tool.input_schema)
    return frozenset(
        tools[own][0]
        for tools in schemas.values()
        for own in hidden_tools({own: schema for own, (_, schema) in tools.items()})
    )


def _listing_permitted(list_tools: Method) -> Method:
    """List none that the agent may never call; models are told of what is listed, and may call that alone."""

    @functools.wraps(list_tools)
    async def listed(agent: ToolAgent) -> ListToolsResult:
        result: ListToolsResult = await list_tools(agent)
        permitted = _permitted(agent)
        if permitted is None:
            return result
        return result.model_copy(
            update={"tools": [tool for tool in result.tools if permitted.permit(tool.name)]}
        )

    return listed


def _guarded(run: Method) -> Method:
    @functools.wraps(run)
    async def run_tools(
        agent: ToolAgent, request: PromptMessageExtended, request_params: RequestParams | None = None
    ) -> PromptMessageExtended:
        calls = request.tool_calls or {}
        passed = _passed.get()
        if all(id_ in passed and passed[id_][0] is call for id_, call in calls.items()):
            return await run(agent, request, request_params)  # type: ignore[no-any-return]
        judged = _together(await _judged(agent, request))
        tell, counts = _teller(), _counts(agent)
        held = [call for _, call, verdict in judged if isinstance(verdict, Hold)]
        if held:
            for call in held:
                count(counts, call, "held")
            raise TurnHeld
        allowed, refused = {}, {}
        running = {}
        for asked, call, verdict in judged:
            one = RunningCall(call, tell, counts)
            if isinstance(verdict, Refuse):
                refused[call.id] = _error(agent, verdict.reason)
                one.end(refused[call.id], "refused")
            else:
                allowed[call.id] = asked
                running[call.id] = (asked, one)
        if not allowed:
            return PromptMessageExtended(role="user", tool_results=refused)
        token = _passed.set(running)
        results: dict[str, CallToolResult] = {}
        try:
            message: PromptMessageExtended = await run(
                agent, request.model_copy(update={"tool_calls": allowed}), request_params
            )
            results = {id_: whole_result(result) for id_, result in (message.tool_results or {}).items()}
            message.tool_results = results
        finally:
            _passed.reset(token)
            for id_, (_, one) in running.items():
                one.end(results.get(id_))
        if refused:
            results = results | refused
            message.tool_results = {id_: results[id_] for id_ in calls if id_ in results}
        return message

    return run_tools


def _followed(call_tool: Method) -> Method:
    @functools.wraps(call_tool)
    async def followed(
        agent: ToolAgent,
        name: str,
        arguments: dict[str, Any] | None = None,
        tool_use_id: str | None = None,
        **options: Any,
    ) -> CallToolResult:
        permitted = _permitted(agent)
        if permitted is not None and not permitted.permit(name):  # whoever calls it
            return _error(agent, refusal(name, [tool.name for tool in (await agent.list_tools()).tools]))

        def act() -> Awaitable[CallToolResult]:
            return call_tool(agent, name, arguments, tool_use_id, **options)

        return await _follow(agent, tool_use_id, act)

    return followed


def _contained(run: Method) -> Method:
    """Make an error of whatever a function of the agent's own raises: fast-agent tells the model of that one."""

    @functools.wraps(run)
    async def run_function(tool: Any, arguments: dict[str, Any]) -> Any:
        try:
            return await run_contained(lambda: run(tool, arguments))
        except RaisedError as error:
            _log.warning(f"the tool {tool.name[:100]!r} raised {error}", exc_info=error.__cause__)
            raise

    return run_function


def _followed_child(run_child: Method) -> Method:
    @functools.wraps(run_child)
    async def followed(agent: AgentsAsToolsAgent, *, correlation_id: str, **call: Any) -> CallToolResult:
        async def act() -> CallToolResult:
            with contained():
                return await run_child(agent, correlation_id=correlation_id, **call)  # type: ignore[no-any-return]

        try:
            return await _follow(agent, correlation_id, act)
        except RaisedError as error:
            return _error(agent, f"Error: {error}")

    return followed


async def _follow(
    agent: ToolAgent, id_: str | None, act: Callable[[], Awaitable[CallToolResult]]
) -> CallToolResult:
    """Run what may be one of the calls that have been let through; a tool may call tools of its agent itself."""
    _, one = _passed.get().get(id_ or "", (None, None))

    async def whole() -> CallToolResult:
        return whole_result(await act())

    return await (one.run(whole) if one is not None and one.call.agent == agent.name else whole())


async def _judged(agent: ToolAgent, request: PromptMessageExtended) -> Sequence[_Judged]:
    """The calls of a message under the names that the agent's tools have, and what becomes of each."""
    allowed = _allowed()
    tools = (await agent.list_tools()).tools
    available = [tool.name for tool in tools if allowed is None or allowed.match(tool.name)]
    current = current_call()
    holding = _holding.get()
    approved = holding is not None and holding[1] is request
    hold = Patterns(() if current is None or approved else current.request.hold)
    connections = getattr(agent, "aggregator", None)
    catalog = connections.tool_catalog() if connections is not None else None
    judged = []
    for id_, asked in (request.tool_calls or {}).items():
        name = resolve_name(asked.params.name, available) or asked.params.name
        call = PendingCall(
            agent=agent.name,
            id=id_,
            server=None if catalog is None else getattr(catalog.namespaced_tool(name), "server_name", None),
            tool=name,
            arguments=asked.params.arguments or {},
            available=available,
            hold=hold,
            can_wait=holding is not None and holding[0] is agent and not _passed.get(),
        )
        if name != asked.params.name:
            asked = asked.model_copy(update={"params": asked.params.model_copy(update={"name": name})})
        verdict = await judge(call)
        if isinstance(asked, UnreadableCall) and not isinstance(verdict, Refuse):
            verdict = Refuse(asked.reason)
        judged.append((asked, call, verdict))
    return judged


def _together(judged: Sequence[_Judged]) -> Sequence[_Judged]:
    """The same, without a call that is held beside one that cannot be read: that one could not be taken up."""
    if not any(isinstance(asked, UnreadableCall) for asked, _, _ in judged):
        return judged
    return [
        (asked, call, Refuse(_BESIDE_UNREADABLE) if isinstance(verdict, Hold) else verdict)
        for asked, call, verdict in judged
    ]


def _allowed() -> Patterns | None:
    """The tools that this turn is limited to; None where it is not."""
    current = current_call()
    if current is None or current.request.tools_allowlist is None:
        return None
    return Patterns(current.request.tools_allowlist)


def _permitted(agent: ToolAgent) -> Globs | None:
    """What the agent may call at all; None for everything that it has."""
    return getattr(agent.context, "pallas_tools", None)


def _teller() -> Callable[[TurnEvent], None]:
    current = current_call()
    return current.tell if current is not None else lambda _: None


def _counts(agent: ToolAgent) -> Counts:
    """Where the instance counts."""
    attachments = getattr(agent.context, "pallas_attachments", None)
    return attachments.tool_calls if attachments is not None else Counts()


def _error(agent: ToolAgent, reason: str) -> CallToolResult:
    """The result that the model gets for a call that does not run."""
    _log.warning(f"{agent.name}: {reason}")
    return CallToolResult(content=[TextContent(type="text", text=reason)], is_error=True)
