"""Before a worker accepts anything: does it answer MCP through its whole HTTP stack?

Knows one HTTP exchange; nothing of sockets or agents. During a graceful replacement only the worker itself can tell:
a probe of the port might be answered by the one that it is to replace.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from pallas_worker.errors import AgentError

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

_REQUEST = (
    b"POST /mcp HTTP/1.1\r\n"
    b"Host: localhost\r\n"
    b"Content-Type: application/json\r\n"
    b"Accept: application/json, text/event-stream\r\n"
    b"Content-Length: %d\r\n"
    b"Connection: close\r\n\r\n"
) % len(_INITIALIZE) + _INITIALIZE


async def check_answers(server: HttpServer) -> None:
    """Return if an `initialize` is answered with status 200.

    Raises:
        AgentError: it is not; the message has the answer's status line.
    """
    try:
        async with asyncio.timeout(TIMEOUT):
            response = await server.exchange(_REQUEST)
    except TimeoutError:
        raise AgentError(f"the worker does not answer itself within {TIMEOUT:g} s", permanent=False) from None
    status_line = response.partition(b"\r\n")[0].decode("latin-1")
    if status_line.split(" ")[1:2] != ["200"]:
        raise AgentError(f"the worker answers itself with {status_line!r}", permanent=False)
