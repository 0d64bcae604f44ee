"""The HTTP face of a worker: MCP at `/mcp` by the SDK's low-level server, chat completions at `/v1`, metrics, liveness.

Knows MCP and HTTP; must not know fast-agent. Answers carry neither tracebacks nor secrets.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mcp.server.lowlevel.server import Server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
)
from pydantic import ValidationError
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from pallas_common.http.answers import answer
from pallas_common.http.hosts import HostGuard, Hosts
from pallas_common.logs.setup import get_logger
from pallas_common.metrics.agent_info import agent_families
from pallas_common.protocol.agent.incomplete import SENTENCES
from pallas_common.protocol.mcp.agent_tools import GET_HEALTH
from pallas_common.protocol.mcp.chain import chain_in_meta
from pallas_worker.calls.call import Caller
from pallas_worker.calls.large import beside
from pallas_worker.calls.record import who_calls
from pallas_worker.downstreams.bearer import inbound_bearer
from pallas_worker.health.assessment import health_document
from pallas_worker.http.chat.endpoint import PATH as CHAT_PATH
from pallas_worker.http.chat.endpoint import ChatEndpoint
from pallas_worker.http.chat.models import Models
from pallas_worker.http.key_guard import KeyGuard
from pallas_worker.http.single_message import OneMessage, size_of_body
from pallas_worker.interface.errors import ArgumentError, FailedTurn
from pallas_worker.interface.tools import (
    history_prompt,
    list_tools,
    parse_send_message,
    refuse_arguments,
    structures,
)
from pallas_worker.telemetry import metrics
from pallas_worker.telemetry.correlation import request_id
from pallas_worker.telemetry.tracing import continue_trace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.types import ASGIApp

    from pallas_common.protocol.spec import WorkerSpec
    from pallas_worker.calls.call import Calls
    from pallas_worker.health.report import Health

_log = get_logger("pallas.worker.app")

PATH = "/mcp"


class WorkerApp:
    """The MCP server of one agent, and the ASGI application that serves it."""

    def __init__(self, spec: WorkerSpec, calls: Calls, health: Health) -> None:
        self._spec = spec
        self._calls = calls
        self._health = health
        self._tools = list_tools(spec.agent, spec.title, spec.description, spec.output_schema)
        self._structures = structures(spec.output_schema)
        self._names = {tool.name for tool in self._tools}
        self._prompt = history_prompt(spec.agent)
        self._max_request_bytes = spec.max_request_bytes
        self._port = spec.port
        self._chat = ChatEndpoint(spec, calls)
        self._models = Models(spec.agent, spec.title, spec.deployment)
        self.server: Server[dict[str, Any]] = Server(
            spec.agent,
            version=spec.version,
            title=spec.title,
            description=spec.description,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            get_tool_input_schema=self._header_schema,
        )
        self.server.middleware.insert(0, continue_trace)
        self.server.middleware.append(_say_which_parameter)

    def asgi(self, allowed_hosts: tuple[str, ...]) -> ASGIApp:
        """The application; requests by another name, or from a page elsewhere, are refused."""
        # The guard checks Host and Origin, of all paths; the SDK knows neither any address nor the page's own origin.
        security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
        app: Starlette = self.server.streamable_http_app(
            streamable_http_path=PATH,
            stateless_http=True,
            max_request_body_size=self._max_request_bytes,
            transport_security=security,
            custom_starlette_routes=[
                Route("/", self._where),
                Route("/metrics", self._metrics),
                Route("/livez", _livez),
                *self._models.routes(self._chat),
            ],
        )
        hosts = Hosts(allowed_hosts)
        messages = OneMessage(app, PATH, security, self._max_request_bytes)
        return HostGuard(KeyGuard(messages, self._spec) if self._spec.is_behind else messages, lambda: hosts)

    async def _where(self, _request: Request) -> Response:
        """For a browser that opens the port's root."""
        return PlainTextResponse(
            f"MCP endpoint of {self.server.name}: {PATH}\n"
            f"chat completions, with the model {self.server.name}: {CHAT_PATH}\n"
        )

    async def _metrics(self, request: Request) -> Response:
        """The agent's series, as the registry port has them beside those of all others."""
        facts = agent_families(self.server.name, self._port, self._health.status)
        try:
            body, content_type = metrics.render(request.headers.get("accept"), facts)
        except (RuntimeError, OSError) as error:
            return PlainTextResponse(str(error), 503)
        return answer(request, body, {"content-type": content_type, "vary": "Accept, Accept-Encoding"})

    def _header_schema(self, name: str) -> dict[str, Any] | None:
        """The schema of a tool that mirrors arguments in headers. None does, and the SDK need not list them all."""
        return None

    async def _list_tools(
        self, context: ServerRequestContext[Any], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=list(self._tools))

    async def _call_tool(
        self, context: ServerRequestContext[Any], params: CallToolRequestParams
    ) -> CallToolResult:
        if params.name not in self._names:
            known = ", ".join(tool.name for tool in self._tools)
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name[:80]}; this agent has {known}")
        if params.name == GET_HEALTH:
            return await self._get_health(params.arguments)
        headers = context.request.headers if context.request is not None else {}
        caller = Caller(
            surface="send_message",
            request_id=request_id(headers),
            bearer=inbound_bearer(headers),
            send_progress=context.session.report_progress,
            chain=(chain := chain_in_meta(params.meta)),
            who=who_calls(headers, chain),
        )
        size = size_of_body(context.request.scope) if context.request is not None else 0
        read = await beside(size, lambda: parse_send_message(params.arguments))
        try:
            result = await self._calls.turn(read, caller)
        except FailedTurn as error:
            return CallToolResult(is_error=True, content=[TextContent(type="text", text=str(error))])
        structured = result.structured.value if self._structures and result.structured is not None else None
        meta: dict[str, Any] = {}
        if result.turns_left_out:
            meta["pallas/turns_left_out"] = result.turns_left_out
        if (reason := result.incomplete) is None:
            return CallToolResult(
                content=list(result.content), structured_content=structured, _meta=meta or None
            )
        # For a model, which sees nothing but this.
        said = [block for block in result.content if not isinstance(block, TextContent) or block.text.strip()]
        note = TextContent(type="text", text=f"[{SENTENCES[reason]}]")
        return CallToolResult(
            content=said if said and reason == "max_tokens" else [*said, note],
            structured_content=structured,
            is_error=not said,
            _meta=meta | {"pallas/status": "incomplete", "pallas/reason": reason},
        )

    async def _get_health(self, arguments: Mapping[str, object] | None) -> CallToolResult:
        try:
            refuse_arguments(arguments)
        except ArgumentError as error:
            return CallToolResult(is_error=True, content=[TextContent(type="text", text=str(error))])
        report = await self._health.newest()
        text = json.dumps(health_document(report))
        return CallToolResult(content=[TextContent(type="text", text=text)])

    async def _list_prompts(
        self, context: ServerRequestContext[Any], params: PaginatedRequestParams | None
    ) -> ListPromptsResult:
        return ListPromptsResult(prompts=[self._prompt])

    async def _get_prompt(
        self, context: ServerRequestContext[Any], params: GetPromptRequestParams
    ) -> GetPromptResult:
        if params.name != self._prompt.name:
            raise MCPError(
                INVALID_PARAMS, f"Unknown prompt: {params.name[:80]}; this agent has {self._prompt.name}"
            )
        return GetPromptResult(description=self._prompt.description, messages=[])


async def _say_which_parameter(ctx: ServerRequestContext[Any], call_next: CallNext) -> HandlerResult:
    """Name the parameter that is malformed; the SDK's own answer leaves the client to guess."""
    try:
        return await call_next(ctx)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        if first["loc"][:1] != ("params",):
            raise
        where = ".".join(map(str, first["loc"]))
        raise MCPError(INVALID_PARAMS, f"Invalid request parameters: {where}: {first['msg']}") from None


async def _livez(request: Request) -> Response:
    return PlainTextResponse("ok")
