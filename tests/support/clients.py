"""The MCP SDK's own client against a worker, in both protocol eras.

Knows the SDK; nothing of processes.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import TextContent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

Era = Literal["auto", "legacy"]
ERAS: tuple[Era, ...] = ("auto", "legacy")


@asynccontextmanager
async def connect(url: str, era: Era = "auto") -> AsyncIterator[Client]:
    """A connected client: `auto` speaks 2026-07-28 where the server does, `legacy` the older handshake."""
    async with Client(streamable_http_client(url), mode=era) as client:
        yield client


async def call(url: str, tool: str, era: Era = "auto", **arguments: Any) -> tuple[bool, str]:
    """Call a tool once; whether it is an error, and its text."""
    async with connect(url, era) as client:
        result = await client.call_tool(tool, arguments)
        texts = [block.text for block in result.content if isinstance(block, TextContent)]
        return bool(result.is_error), "\n".join(texts)


async def send_message(url: str, message: str, era: Era = "auto", **arguments: Any) -> str:
    """The agent's answer."""
    failed, text = await call(url, "send_message", era, message=message, **arguments)
    assert not failed, text
    return text
