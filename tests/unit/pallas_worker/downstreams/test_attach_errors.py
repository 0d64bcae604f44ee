"""Why a server could not be attached, from exceptions as fast-agent nests them."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from fast_agent.core.exceptions import ServerInitializationError
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, CallToolResult, TextContent

from pallas_worker.downstreams.attach_errors import LONGEST, has_other_tools, is_loss, why_unattached

REQUEST = httpx2.Request("POST", "http://me:password@server/mcp")
CLOSED = MCPError(code=CONNECTION_CLOSED, message="Connection closed by Bearer abc")


def wrapped(cause: Exception) -> ServerInitializationError:
    error = ServerInitializationError("MCP Server: 'x': Failed to initialize", "the details")
    error.__cause__ = ExceptionGroup("unhandled errors in a TaskGroup", [cause])
    return error


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        (httpx2.ConnectError("all attempts failed"), "cannot connect"),
        (httpx2.ReadTimeout("x"), "no answer in time"),
        (TimeoutError(), "no answer in time"),
        (httpx2.HTTPStatusError("x", request=REQUEST, response=httpx2.Response(503)), "HTTP 503"),
        (CLOSED, "ended before it answered"),
        (MCPError(code=-32601, message="sk-secret"), "JSON-RPC error -32601"),
        (FileNotFoundError("x"), "its command cannot be started"),
        (ValueError("sk-secret"), "failed: ValueError"),
    ],
)
def test_the_reason_is_found_and_says_none_of_the_exceptions_words(cause: Exception, reason: str) -> None:
    assert why_unattached(wrapped(cause)) == reason


def test_the_cause_counts_and_not_what_followed_from_it() -> None:
    error = TimeoutError()
    error.__cause__ = httpx2.ConnectError("x")
    assert why_unattached(wrapped(error)) == "cannot connect"


def test_what_the_server_said_last_is_in_it_and_bounded() -> None:
    assert (
        why_unattached(wrapped(CLOSED), "KeyError: 'TOKEN'") == "ended before it answered: KeyError: 'TOKEN'"
    )
    assert len(why_unattached(wrapped(CLOSED), "y" * 2000)) == LONGEST


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("Unknown tool: search", True),
        ("MCP error -32602: Tool search not found", True),
        ("tool 'a.b' is unknown", True),
        ("the file was not found", False),
        ("nothing says: unknown tool", False),
    ],
)
def test_a_server_that_knows_no_such_tool_has_other_ones(text: str, is_one: bool) -> None:
    content: list[Any] = [TextContent(type="text", text=text)]
    assert has_other_tools(CallToolResult(content=content, is_error=True)) is is_one
    assert not has_other_tools(CallToolResult(content=content, is_error=False))
    assert is_loss(MCPError(-32602, text)) is is_one


def test_what_says_nothing_says_nothing_of_tools() -> None:
    assert not has_other_tools(CallToolResult(content=[], is_error=True))
    assert not has_other_tools(None)
