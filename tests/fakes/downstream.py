"""A small real downstream MCP server on loopback, of either or both protocol eras, that records and fails.

Knows the MCP SDK's server; must not know anything of Pallas.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from mcp.server.mcpserver import Context, MCPServer
from mcp_types import CallToolResult, Completion, CompletionArgument, ContentBlock, ImageContent, TextContent
from starlette.responses import JSONResponse

from fakes.asking import add_asking_tools
from fakes.loopback import START_TIMEOUT, Fault, Loopback, Recorded, serve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["Era", "Fault", "Recorded", "RunningDownstream", "run_downstream"]

Era = Literal["both", "modern", "legacy"]
MODERN = "2026-07-28"
LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")


class RunningDownstream:
    """A running downstream server: what it has seen, and what it shall do wrong from now on."""

    def __init__(self, loopback: Loopback, sessions: _Sessions, spoken: _OneEra) -> None:
        self._loopback = loopback
        self._sessions = sessions
        self._spoken = spoken

    @property
    def url(self) -> str:
        """The streamable HTTP endpoint."""
        return f"{self._loopback.origin}/mcp"

    @property
    def sse_url(self) -> str:
        """The endpoint of the old HTTP+SSE transport."""
        return f"{self._loopback.origin}/sse"

    @property
    def port(self) -> int:
        """The TCP port on 127.0.0.1."""
        return self._loopback.port

    @property
    def requests(self) -> list[Recorded]:
        """All requests so far, in the order of their arrival."""
        return list(self._loopback.requests)

    @property
    def methods(self) -> list[str]:
        """The JSON-RPC methods so far; an HTTP method stands for a request without one."""
        return [request.rpc_method or request.method for request in self.requests]

    @property
    def gone(self) -> list[Recorded]:
        """The requests whose client went away before it had the whole answer."""
        return list(self._loopback.gone)

    @property
    def sessions_left(self) -> set[str]:
        """The sessions of the older protocol that were opened and not closed."""
        return self._sessions.opened - self._sessions.closed

    @property
    def sessions_opened(self) -> int:
        """How many sessions of the older protocol there have been."""
        return len(self._sessions.opened)

    @property
    def connections(self) -> int:
        """How many TCP connections are open."""
        return self._loopback.connections

    @property
    def fault(self) -> Callable[[Recorded], Fault | None] | None:
        """Decides on each request what goes wrong; None lets all pass."""
        return self._loopback.fault

    @fault.setter
    def fault(self, fault: Callable[[Recorded], Fault | None] | Fault | None) -> None:
        self._loopback.fault = _decider(fault)

    def speak(self, era: Era) -> None:
        """From now on it is a server of this era, as if another had taken its place behind a proxy."""
        self._spoken.era = era

    def wait_for(self, matches: Callable[[list[Recorded]], bool], timeout: float = START_TIMEOUT) -> None:
        """Wait until `matches` is true of the requests so far; call it from a thread, not from a loop."""
        self._loopback.wait_for(matches, timeout)

    def wait_for_gone(
        self, matches: Callable[[list[Recorded]], bool], timeout: float = START_TIMEOUT
    ) -> None:
        """Wait until `matches` is true of the requests whose client went away; call it from a thread."""
        self._loopback.wait_for_gone(matches, timeout)

    def forget(self) -> None:
        """Drop the records of requests so far; sessions stay counted."""
        self._loopback.requests.clear()
        self._loopback.gone.clear()

    def release(self) -> None:
        """Let the requests go on that a `Fault(hold=True)` holds."""
        self._loopback.release()

    def stop(self) -> None:
        """Take the server down before its block ends; the port refuses connections from then on."""
        self._loopback.stop()


@contextmanager
def run_downstream(
    *,
    name: str = "downstream",
    instructions: str | None = None,
    asking: bool = False,
    pictures: bool = False,
    notes: bool = False,
    greeting: bool = False,
    mute: bool = False,
    era: Era = "both",
    stateless: bool = False,
    json_response: bool = False,
    port: int = 0,
    fault: Callable[[Recorded], Fault | None] | Fault | None = None,
    status: int | None = None,
    reset: bool = False,
    delay: float = 0.0,
    hold: bool = False,
) -> Iterator[RunningDownstream]:
    """Run a downstream server until the block ends.

    Its tools: `echo(text)`, `add(a, b)`, `fail(text)`, and `report(messages)`, which sends them as progress.

    `instructions` are what it tells all clients; with `asking`, it has tools that ask the client back as well;
    with `pictures`, `picture(data)`, whose result has texts and an image; with `notes`, the resource `note://one`;
    with `greeting`, the prompt `greet(who)` and the template `people://{who}`: it completes `who` to ada and alan,
    and its tool `rename(who)` says that one has changed; with `mute`, `mute(failing)`, whose result has no content.
    `era` is what it speaks: "modern" only 2026-07-28, "legacy" only the revisions with `initialize`.
    `stateless` and `json_response` are the SDK's own switches. `fault` is a `Fault` for every request, or
    decides on each; `status`, `reset`, `delay` and `hold` are short for one `Fault` on every request.
    """
    server = MCPServer(name, instructions=instructions, log_level="WARNING")

    @server.tool()
    def echo(text: str) -> str:
        """Give back the text."""
        return text

    @server.tool()
    def add(a: float, b: float) -> float:
        """Add two numbers."""
        return a + b

    @server.tool()
    def fail(text: str) -> str:
        """Fail with the text."""
        raise ValueError(text)

    @server.tool()
    async def report(messages: list[str], context: Context) -> str:
        """Report progress, one notification a message."""
        for number, message in enumerate(messages):
            await context.report_progress(number, None, message)
        return "reported"

    if pictures:

        @server.tool(structured_output=False)
        def picture(data: str) -> list[ContentBlock]:
            """Give back the PNG between two texts."""
            image = ImageContent(type="image", data=data, mime_type="image/png")
            return [
                TextContent(type="text", text="before"),
                image,
                TextContent(type="text", text="after"),
                TextContent(type="text", text="end"),
            ]

    if notes:

        @server.resource("note://one")
        def note() -> str:
            return "noted"

    _add(server, {_add_greeting: greeting, _add_mute: mute, add_asking_tools: asking})
    if fault is None and (status is not None or reset or delay or hold):
        fault = Fault(status=status, reset=reset, delay=delay, hold=hold)
    app = server.streamable_http_app(stateless_http=stateless, json_response=json_response)
    app.router.routes.extend(server.sse_app().routes)
    spoken = _OneEra(app, era)
    sessions = _Sessions(spoken)
    with serve(sessions, fault=_decider(fault), port=port) as loopback:
        yield RunningDownstream(loopback, sessions, spoken)


def _add(server: MCPServer, wanted: Mapping[Callable[[MCPServer], None], bool]) -> None:
    for add_more, is_wanted in wanted.items():
        if is_wanted:
            add_more(server)


def _add_mute(server: MCPServer) -> None:
    @server.tool(structured_output=False)
    def mute(failing: bool) -> CallToolResult:
        """Say nothing."""
        return CallToolResult(content=[], is_error=failing)


def _add_greeting(server: MCPServer) -> None:
    @server.prompt()
    def greet(who: str) -> str:
        """Greet somebody."""
        return f"Greet {who}."

    @server.resource("people://{who}")
    def people(who: str) -> str:
        """Somebody."""
        return who

    @server.tool()
    async def rename(who: str, context: Context) -> str:
        """Say that somebody has changed."""
        await context.notify_resource_updated(f"people://{who}")
        return "renamed"

    async def complete(_ref: object, argument: CompletionArgument, _context: object) -> Completion:
        return Completion(values=[name for name in ("ada", "alan") if name.startswith(argument.value)])

    registered: Any = server.completion  # it has no types
    registered()(complete)


def _decider(
    fault: Callable[[Recorded], Fault | None] | Fault | None,
) -> Callable[[Recorded], Fault | None] | None:
    return (lambda _: fault) if isinstance(fault, Fault) else fault


class _Sessions:
    """Counts the sessions that the server opens and that clients close."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.opened: set[str] = set()
        self.closed: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def counting(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 300:
                named = dict(message.get("headers", ())).get(b"mcp-session-id")
                if scope["method"] == "DELETE":
                    named = dict(scope["headers"]).get(b"mcp-session-id")
                    self.closed.add(named.decode() if named else "")
                elif named:
                    self.opened.add(named.decode())
            await send(message)

        await self._app(scope, receive, counting if scope["type"] == "http" else send)


class _OneEra:
    """Answers requests of the other era as servers do that have never heard of it."""

    def __init__(self, app: ASGIApp, era: Era) -> None:
        self._app = app
        self.era = era

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == "/mcp" and self.era != "both":
            headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
            modern = headers.get(b"mcp-protocol-version") == MODERN
            if modern and self.era == "legacy":
                await _error("server-error", -32600, "Bad Request: Missing session ID")(scope, receive, send)
                return
            if not modern and self.era == "modern":
                body = json.loads((await receive()).get("body") or b"{}")
                data = {"supported": [MODERN], "requested": body.get("params", {}).get("protocolVersion", "")}
                await _error(body.get("id"), -32022, "Unsupported protocol version", data)(
                    scope, receive, send
                )
                return
        await self._app(scope, receive, send)


def _error(id_: object, code: int, message: str, data: object = None) -> JSONResponse:
    """A JSON-RPC error with HTTP status 400."""
    error: dict[str, object] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return JSONResponse({"jsonrpc": "2.0", "id": id_, "error": error}, 400)
