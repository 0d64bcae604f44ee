"""A small project folder for worker tests, and calls of a worker by the MCP SDK's own client.

Knows what a user writes; must not know how a worker is run.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx2
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import TextContent

from support.worker.patience import make_patient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from mcp_types import CallToolResult

MODES = ("auto", "legacy")
"""The client's modes: 2026-07-28, and the revisions with a handshake."""

DEMO = """
from fast_agent import FastAgent

fast = FastAgent("tests")


@fast.agent(name="demo", instruction="You repeat what is said.", servers={servers!r})
async def demo(): ...
"""


def project(
    directory: Path,
    *,
    agents: str | None = None,
    servers: dict[str, dict[str, Any]] | None = None,
    config: str = "default_model: passthrough\n",
) -> Path:
    """Write a project with the module `agents.demo`; the agent `demo` has the given downstream servers."""
    (directory / "agents").mkdir()
    make_patient(directory / "agents")
    source = agents if agents is not None else DEMO.format(servers=list(servers or {}))
    (directory / "agents" / "demo.py").write_text(source)
    lines = [config, "mcp:", "  servers:"] if servers else [config]
    for name, fields in (servers or {}).items():
        lines += [f"    {name}:", *(f"      {key}: {value!r}" for key, value in fields.items())]
    (directory / "fastagent.config.yaml").write_text("\n".join(lines) + "\n")
    return directory


def ask[T](url: str, mode: str, act: Callable[[Client], Awaitable[T]]) -> T:
    """What `act` returns on a client of the worker at `url`."""

    async def run() -> T:
        async with Client(url, mode=mode) as client:
            return await act(client)

    return asyncio.run(run())


@asynccontextmanager
async def bearing(url: str, token: str, mode: str = "auto") -> AsyncIterator[Client]:
    """A client whose requests carry this bearer token."""
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=180) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


def call(url: str, mode: str, tool: str, **arguments: Any) -> CallToolResult:
    """The result of one tool call on a connection of its own."""

    async def act(client: Client) -> CallToolResult:
        return await client.call_tool(tool, arguments)

    return ask(url, mode, act)


def text(result: CallToolResult) -> str:
    """The answer: the last text block of a result, after those that the model said before it called tools."""
    assert all(isinstance(block, TextContent) for block in result.content)
    block = result.content[-1]
    assert isinstance(block, TextContent)
    return block.text
