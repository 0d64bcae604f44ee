"""A `tools/call` as bytes on the wire, in both eras: for clients that misbehave, and for many calls at little cost.

Knows the shape of MCP over streamable HTTP.
"""

from __future__ import annotations

import json
from typing import Any

from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY


def raw_call(mode: str, message: str, token: str | int | None = None) -> tuple[dict[str, str], str]:
    """Headers and body of one `tools/call` without any session."""
    version = "2026-07-28" if mode == "auto" else "2025-11-25"
    headers = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": version,
    }
    meta: dict[str, Any] = {} if token is None else {"progressToken": token}
    if mode == "auto":
        headers |= {"mcp-method": "tools/call", "mcp-name": "demo"}
        info = {"name": "raw", "version": "1"}
        meta |= {
            PROTOCOL_VERSION_META_KEY: version,
            CLIENT_INFO_META_KEY: info,
            CLIENT_CAPABILITIES_META_KEY: {},
        }
    params = {"name": "demo", "arguments": {"message": message}, "_meta": meta}
    return headers, json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params})
