"""What the benchmark of calls runs in processes of their own: a bare tool, a downstream server, a client.

Knows the MCP SDK; nothing of Pallas. Each role is `python -m support.load.call_peers ROLE ARGUMENTS…`.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from typing import TYPE_CHECKING, Any

import uvicorn
from mcp.client import Client
from mcp.server.lowlevel.server import Server
from mcp.server.mcpserver import MCPServer
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, TextContent, Tool

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

SCHEMA = {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]}


def bare(port: int) -> None:
    """A tool that gives its message back, on the SDK's low-level server, as a worker uses it."""

    async def list_tools(context: ServerRequestContext[Any], params: object) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name="send_message", input_schema=SCHEMA)])

    async def call_tool(context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        message = str((params.arguments or {})["message"])
        return CallToolResult(content=[TextContent(type="text", text=message)])

    server: Server[Any] = Server("bare", on_list_tools=list_tools, on_call_tool=call_tool)
    app = server.streamable_http_app(stateless_http=True)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")


def downstream(port: int) -> None:
    """A downstream server with one tool, on the SDK's high-level server."""
    server = MCPServer("downstream")

    @server.tool()
    def echo(text: str) -> str:
        """Give back the text."""
        return text

    uvicorn.run(server.streamable_http_app(), host="127.0.0.1", port=port, log_level="warning")


async def ask(url: str, tool: str, message: str, sequential: int, parallel: int, calls: int) -> None:
    """Print latencies in ms of sequential calls, and calls per second of parallel ones, on one session."""
    async with Client(url) as client:

        async def once() -> float:
            began = time.perf_counter()
            result = await client.call_tool(tool, {"message": message})
            assert not result.is_error, result.content
            return (time.perf_counter() - began) * 1000

        for _ in range(5):
            await once()
        latencies = [await once() for _ in range(sequential)]
        print(json.dumps({"p50": statistics.median(latencies), "p95": _p95(latencies)}), flush=True)
        sys.stdin.readline()  # the one who measures notes the CPU time in between
        left = iter(range(calls))

        async def caller() -> None:
            for _ in left:
                await once()

        began = time.perf_counter()
        await asyncio.gather(*(caller() for _ in range(parallel)))
        print(json.dumps({"rate": calls / (time.perf_counter() - began)}), flush=True)


def _p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1] if len(values) > 1 else values[0]


def main() -> None:
    """Play the role of the arguments."""
    role, *arguments = sys.argv[1:]
    if role == "bare":
        bare(int(arguments[0]))
    elif role == "downstream":
        downstream(int(arguments[0]))
    else:
        url, tool, message, *numbers = arguments
        asyncio.run(ask(url, tool, message, *map(int, numbers)))


if __name__ == "__main__":
    main()
