"""A small server of MCP behind the gateway's protocol, on a real socket, without tokens: who asks, a header says."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import socket
from typing import TYPE_CHECKING, Any

from pallas_common.http.connections import Connections
from pallas_common.http.server import HttpServer
from pallas_gateway.directory.events.log import EventLog
from pallas_gateway.directory.events.topics import Topic
from pallas_gateway.identity.grants import Permission
from pallas_gateway.identity.principal import Principal
from pallas_gateway.mcp.admitted import Admitted
from pallas_gateway.mcp.endpoint import Endpoint
from pallas_gateway.mcp.errors import INVALID_PARAMS
from pallas_gateway.mcp.surface import InsufficientScopeError, McpError, Relayed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from starlette.types import Receive, Scope, Send

    from pallas_gateway.mcp.admitted import AuditedCall
    from pallas_gateway.mcp.surface import ClientRequest, Json, ListKind

ANYTHING: dict[str, Any] = {"type": "object"}
WHO = b"x-principal"


class ToySurface:
    """Serves what it is given; `tools/call` does what `calls` says."""

    def __init__(self, log: EventLog) -> None:
        self.log = log
        self.instructions: str | None = "Ask."
        self.lists: frozenset[ListKind] = frozenset({"tools", "prompts", "resources"})
        self.completes = True
        self.info: Json = {"name": "toy", "title": "Toy", "version": "1"}
        self.texts: dict[str, str] = {"toy://one": "1", "toy://two": "2"}
        self.forbidden: set[str] = set()
        self.names = ["echo", "fail", "boom", "scope", "progress", "relay", "stream", "wait"]
        self.waiting = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.closed = asyncio.Event()
        self.release = asyncio.Event()
        self.reading: Callable[[], Awaitable[None]] | None = None
        self.stream: list[bytes] = []

    async def tools(self) -> list[Json]:
        schema = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
        return [{"name": name, "inputSchema": ANYTHING} for name in self.names] + [
            {"name": "regional", "inputSchema": schema}
        ]

    async def prompts(self) -> list[Json]:
        return [{"name": "greet", "arguments": [{"name": "who", "required": True}]}]

    async def resources(self) -> list[Json]:
        return [{"uri": uri, "name": uri} for uri in self.texts if uri not in self.forbidden]

    async def templates(self) -> list[Json]:
        return [{"uriTemplate": "toy://{name}", "name": "any"}]

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], request: ClientRequest
    ) -> Json | Relayed:
        match name:
            case "echo" | "regional":
                return said(str(arguments.get("text")))
            case "fail":
                return {**said("no"), "isError": True}
            case "boom":
                raise RuntimeError("a secret that nobody is to see")
            case "scope":
                raise InsufficientScopeError(Permission("run", "agents", "jarvis"))
            case "progress":
                for step in range(2):
                    params = {"progressToken": request.params["_meta"]["progressToken"], "progress": step}
                    await request.notify(
                        {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
                    )
                return said("done")
            case "relay":
                head = f'{{"jsonrpc": "2.0",\n"id": {json.dumps(request.id)},'
                body = f'{head} "result": {{"content": [], "resultType": "complete"}}}}'.encode()
                return Relayed(status=200, content_type="application/json", body=body)
            case "stream":
                return Relayed(status=200, content_type="text/event-stream", body=self._pieces())
            case "wait":
                return await self._wait()
        raise McpError(INVALID_PARAMS, f"no such tool: {name[:100]}")

    async def _pieces(self) -> AsyncIterator[bytes]:
        try:
            for piece in self.stream:
                yield piece
                self.waiting.set()
                await self.release.wait()
                self.release.clear()
        finally:
            self.closed.set()

    async def _wait(self) -> Json:
        self.waiting.set()
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return said("released")

    async def header_schema(self, name: str) -> Json | None:
        if name != "regional":
            return None
        return {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str], request: ClientRequest
    ) -> Json | Relayed:
        if name != "greet":
            raise McpError(INVALID_PARAMS, "no such prompt")
        text = f"Hello {arguments['who']}"
        return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}

    async def read(self, uri: str, request: ClientRequest) -> Json | Relayed:
        if uri not in self.texts or uri in self.forbidden:
            raise McpError(INVALID_PARAMS, "no such resource", {"uri": uri})
        result = {"contents": [{"uri": uri, "text": self.texts[uri]}]}
        if self.reading is not None:
            await self.reading()
        return result

    async def complete(self, ref: Json, argument: Json, request: ClientRequest) -> Json:
        return {"completion": {"values": [argument["value"] + "!"], "hasMore": False}}

    async def ready(self) -> None: ...

    def may_subscribe(self, uri: str) -> bool:
        return uri in self.texts and uri not in self.forbidden

    def topics(self, uri: str) -> tuple[Topic, ...]:
        return (Topic(uri),)

    def list_topic(self, kind: ListKind) -> Topic:
        return Topic(kind, owner="toy")

    def audited(self, name: str, arguments: Mapping[str, Any]) -> str:
        return f"toy/{name}"

    def change(self, uri: str, text: str = "changed") -> None:
        """A resource says something else from now on."""
        self.texts[uri] = text
        self.log.publish(Topic(uri))

    def change_list(self, kind: ListKind) -> None:
        """A list has changed."""
        self.log.publish(self.list_topic(kind))


def said(text: str) -> Json:
    """The result of a tool."""
    return {"content": [{"type": "text", "text": text}]}


class Written:
    """An audit in memory."""

    def __init__(self) -> None:
        self.calls: list[AuditedCall] = []
        self.refusal: Exception | None = None

    def begin(self, request: ClientRequest, what: str) -> object:
        if self.refusal is not None:
            raise self.refusal
        return None

    def called(self, call: AuditedCall) -> None:
        self.calls.append(call)

    @property
    def outcomes(self) -> list[tuple[str, str]]:
        """What was called, and how it ended."""
        return [(call.what, call.outcome) for call in self.calls]


class Toy:
    """The endpoint and what is behind it.

    Args:
        most: subscriptions, sessions and streams of one principal.
        longest_body: bytes.
    """

    def __init__(self, *, most: int = 1000, longest_body: int = 1_000_000) -> None:
        self.log = EventLog()
        self.surface = ToySurface(self.log)
        self.audit = Written()
        self.endpoint = Endpoint(self.log, most_subscriptions=most, audit=self.audit)
        self.longest_body = longest_body
        self.denied: list[InsufficientScopeError] = []
        self.expires: float | None = None
        self.url = ""
        self._numbers = itertools.count(1)
        self._tasks: set[asyncio.Task[Any]] = set()

    def revoke(self, who: str) -> None:
        """As the application does it when a token counts no more: what is under way is cancelled as well."""
        self.endpoint.revoke(who)
        for task in self._tasks:
            task.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        who = headers.get(WHO, b"someone").decode()
        admitted = Admitted(
            principal=Principal(id=who, name=who, role="human", expires=self.expires),
            path=scope["path"],
            request_id=f"request-{next(self._numbers)}",
            headers={},
            opens_stream=lambda: None,
            subscribes=lambda: None,
            most_subscriptions=1000,
            longest_body=self.longest_body,
        )
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self.endpoint(scope, receive, send, admitted, self.surface)
        except asyncio.CancelledError:
            if task.uncancel():
                raise
        except InsufficientScopeError as error:
            self.denied.append(error)
            await send({"type": "http.response.start", "status": 403, "headers": []})
            await send({"type": "http.response.body", "body": b""})
        finally:
            self._tasks.discard(task)


@contextlib.asynccontextmanager
async def serve(toy: Toy) -> AsyncIterator[Toy]:
    """The toy on a port of its own, until the block ends; its URL is in it."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1024)
        server = HttpServer(toy, listener, Connections("toy", 5000))
        server.start()
        toy.url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        try:
            yield toy
        finally:
            toy.endpoint.drain()
            await server.drain(5.0)
