"""The gateway's protocol before the fixtures of the conformance suite, in a process of its own.

Knows the protocol, and the fixtures by their URL; the gateway's own relay, tokens and names are not there. What the
suite says of this is about the protocol alone.
"""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
from typing import TYPE_CHECKING, Any

import httpx

from pallas_common.http.connections import Connections
from pallas_common.http.hosts import LOOPBACK, HostGuard, Hosts
from pallas_common.http.server import HttpServer
from pallas_gateway.mcp.surface import McpError, Relayed
from support.gateway.toy import Toy, ToySurface

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from pallas_gateway.events.log import EventLog
    from pallas_gateway.mcp.surface import ClientRequest, Json

VERSION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
}
ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


class FixtureSurface(ToySurface):
    """What the fixtures have."""

    def __init__(self, log: EventLog, url: str) -> None:
        super().__init__(log)
        self._url = url
        self._client = httpx.AsyncClient()
        self._schemas: dict[str, Json] = {}

    async def tools(self) -> list[Json]:
        found = (await self._ask("tools/list"))["tools"]
        self._schemas = {tool["name"]: tool["inputSchema"] for tool in found}
        triggers = ("test_trigger_tool_change", "test_trigger_prompt_change")
        ours = [{"name": name, "description": name, "inputSchema": {"type": "object"}} for name in triggers]
        return [*found, *ours]

    async def prompts(self) -> list[Json]:
        found: list[Json] = (await self._ask("prompts/list"))["prompts"]
        return found

    async def resources(self) -> list[Json]:
        found: list[Json] = (await self._ask("resources/list"))["resources"]
        return found

    async def templates(self) -> list[Json]:
        found: list[Json] = (await self._ask("resources/templates/list"))["resourceTemplates"]
        return found

    def header_schema(self, name: str) -> Json | None:
        schema = self._schemas.get(name)
        return schema if schema is not None and "x-mcp-header" in json.dumps(schema) else None

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], request: ClientRequest
    ) -> Json | Relayed:
        if name == "test_trigger_tool_change":
            self.change_list("tools")
            return {"content": []}
        if name == "test_trigger_prompt_change":
            self.change_list("prompts")
            return {"content": []}
        return await self._relay(request)

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str], request: ClientRequest
    ) -> Json | Relayed:
        return await self._relay(request)

    async def read(self, uri: str, request: ClientRequest) -> Json | Relayed:
        return await self._relay(request)

    async def complete(self, ref: Json, argument: Json, request: ClientRequest) -> Json:
        return {"completion": {"values": [], "total": 0, "hasMore": False}}

    def may_subscribe(self, uri: str) -> bool:
        return uri.startswith("test://")

    async def _ask(self, method: str) -> Json:
        headers = {**ACCEPT, "mcp-protocol-version": VERSION, "mcp-method": method}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": META}}
        result: Json = (await self._client.post(self._url, json=body, headers=headers)).json()["result"]
        return result

    async def _relay(self, request: ClientRequest) -> Relayed:
        headers = {**ACCEPT, "mcp-protocol-version": request.version}
        headers |= {name: value for name, value in request.headers.items() if name.startswith("mcp-")}
        headers.pop("mcp-session-id", None)
        body = {"jsonrpc": "2.0", "id": request.id, "method": request.method, "params": request.params}
        asked = self._client.build_request("POST", self._url, json=body, headers=headers)
        response = await self._client.send(asked, stream=True)
        kind = response.headers["content-type"]
        if not kind.startswith("text/event-stream"):
            answer = await response.aread()
            if response.status_code == 200 and b'"error"' in answer[:200]:
                error = json.loads(answer).get("error")
                if error is not None:
                    raise McpError(error["code"], error["message"], error.get("data"))
            return Relayed(status=response.status_code, content_type=kind, body=answer)
        return Relayed(status=response.status_code, content_type=kind, body=pieces(response))


async def pieces(response: httpx.Response) -> AsyncIterator[bytes]:
    """The body of a response as it comes."""
    try:
        async for piece in response.aiter_raw():
            yield piece
    finally:
        await response.aclose()


async def main(listener: socket.socket, fixtures: str) -> None:
    """Serve on `listener` until SIGTERM."""
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    toy, hosts = Toy(), Hosts(LOOPBACK)
    toy.surface = FixtureSurface(toy.log, fixtures)
    guarded = HostGuard(toy, lambda: hosts)
    http = HttpServer(guarded, listener, Connections("gateway", 1000))
    http.start()
    await stopping.wait()
    toy.endpoint.drain()
    await http.drain(1.0)


if __name__ == "__main__":
    asyncio.run(main(socket.socket(fileno=int(sys.argv[1])), sys.argv[2]))
