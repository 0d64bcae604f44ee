"""The header lines of a request to a server of MCP over HTTP, in each era. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pallas_gateway.mcp.headers import encode_header_value

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAMES: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""Method → what of its params the header `Mcp-Name` says."""


_LONGEST_SESSION_ID = 1024


def is_session_id(text: str) -> bool:
    """Whether a session of that id can be said in a header."""
    return len(text) <= _LONGEST_SESSION_ID and text.isascii() and text.isprintable()


def session_lines(version: str, session: str | None) -> str:
    """Those that say in which version and session a request is."""
    lines = f"mcp-protocol-version: {version}\r\n" if version else ""
    return lines + (f"mcp-session-id: {session}\r\n" if session is not None else "")


def method_lines(method: str, params: Mapping[str, Any]) -> str:
    """Those by which a server of 2026-07-28 knows what is asked before it has read the body."""
    lines = f"mcp-method: {method}\r\n"
    if (key := _NAMES.get(method)) is not None:
        lines += f"mcp-name: {encode_header_value(str(params.get(key, '')))}\r\n"
    return lines
