"""Before a worker accepts anything: does it answer MCP through its whole HTTP stack?

Knows one HTTP exchange; nothing of sockets or agents. During a graceful replacement only the worker itself can tell:
a probe of the port might be answered by the one that it is to replace.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pallas_worker.accept import HttpServer

TIMEOUT = 10.0
"""Seconds that the answer may take."""

_INITIALIZE = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "pallas-worker", "version": "1"},
        },
    }
).encode()


async def complaint_of(server: HttpServer, port: int) -> str | None:
    """Why an `initialize` is not answered with status 200, in one line; None if it is."""
    try:
        async with asyncio.timeout(TIMEOUT):
            response = await server.exchange(_request(port))
    except TimeoutError:
        return f"the worker does not answer itself within {TIMEOUT:g} s"
    status_line = response.partition(b"\r\n")[0].decode("latin-1")
    return (
        None if status_line.split(" ")[1:2] == ["200"] else f"the worker answers itself with {status_line!r}"
    )


def _request(port: int) -> bytes:
    head = (
        "POST /mcp HTTP/1.1\r\n"
        f"Host: localhost:{port}\r\n"
        "Content-Type: application/json\r\n"
        "Accept: application/json, text/event-stream\r\n"
        f"Content-Length: {len(_INITIALIZE)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + _INITIALIZE
