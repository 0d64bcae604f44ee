"""The probe that confirms a worker's word: an MCP `initialize` on its own port has to be answered.

Knows one HTTP exchange; nothing of workers.
"""

from __future__ import annotations

import asyncio
import json

PROBE_TIMEOUT = 5.0
PROBE_INTERVAL = 0.1

_INITIALIZE = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "pallas-supervisor", "version": "1"},
        },
    }
).encode()


async def probe(host: str, port: int) -> str | None:
    """Ask `/mcp` at `host:port` once; None if it answered with 200, else why not, in one line."""
    try:
        async with asyncio.timeout(PROBE_TIMEOUT):
            return await _exchange(host, port)
    except TimeoutError:
        return f"no answer within {PROBE_TIMEOUT:g} s"
    except OSError as error:
        return str(error)


async def _exchange(host: str, port: int) -> str | None:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        name = f"[{host}]" if ":" in host else host
        head = (
            "POST /mcp HTTP/1.1\r\n"
            f"Host: {name}:{port}\r\n"
            "Content-Type: application/json\r\n"
            "Accept: application/json, text/event-stream\r\n"
            f"Content-Length: {len(_INITIALIZE)}\r\n"
            "Connection: close\r\n\r\n"
        )
        writer.write(head.encode() + _INITIALIZE)
        await writer.drain()
        status_line = (await reader.readline()).decode("latin-1").rstrip()
        return None if status_line.split(" ")[1:2] == ["200"] else f"answered {status_line!r}"
    finally:
        writer.close()


async def until_answered(host: str, port: int) -> None:
    """Probe until it is answered; the caller bounds the time."""
    while await probe(host, port) is not None:  # noqa: ASYNC110 - a port has no event for us
        await asyncio.sleep(PROBE_INTERVAL)
