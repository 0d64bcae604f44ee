"""What is asked of a worker to see whether it answers MCP: by the supervisor on its port, by the worker of itself.

Knows one HTTP request and the head of its answer; nothing of connections.
"""

from __future__ import annotations

import json

from pallas_common.protocol.keys import KEY_HEADER


def readiness_request(host: str, port: int | None, client: str, key: str | None = None) -> bytes:
    """An MCP `initialize`, whole, after whose answer the connection is closed.

    Args:
        host: for the Host header, an IPv6 address in brackets.
        port: for the same; None on a unix socket.
        client: what asks, as `clientInfo` has it.
        key: of the port; None where it is open.
    """
    body = json.dumps(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": client, "version": "1"},
            },
        }
    ).encode()
    authority = host if port is None else f"{host}:{port}"
    shown = "" if key is None else f"{KEY_HEADER}: {key}\r\n"
    head = (
        "POST /mcp HTTP/1.1\r\n"
        f"Host: {authority}\r\n"
        "Content-Type: application/json\r\n"
        "Accept: application/json, text/event-stream\r\n"
        f"{shown}Content-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + body


def says_ready(status_line: str) -> bool:
    """Whether the answer's first line has status 200."""
    return status_line.split(" ")[1:2] == ["200"]
