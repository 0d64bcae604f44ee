"""The probe that confirms a worker's word: an MCP `initialize` on its own port has to be answered.

Knows one HTTP exchange; nothing of workers.
"""

from __future__ import annotations

import asyncio

from pallas_common.protocol.readiness_request import readiness_request, says_ready

PROBE_TIMEOUT = 5.0
PROBE_INTERVAL = 0.1


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
        writer.write(readiness_request(name, port, "pallas-supervisor"))
        await writer.drain()
        status_line = (await reader.readline()).decode("latin-1").rstrip()
        return None if says_ready(status_line) else f"answered {status_line!r}"
    finally:
        writer.close()


async def until_answered(host: str, port: int) -> None:
    """Probe until it is answered; the caller bounds the time."""
    while await probe(host, port) is not None:  # noqa: ASYNC110 - a port has no event for us
        await asyncio.sleep(PROBE_INTERVAL)
