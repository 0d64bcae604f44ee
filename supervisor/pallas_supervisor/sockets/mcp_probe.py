"""The probe that confirms a worker's word: an MCP `initialize` on its own socket has to be answered.

Knows one HTTP exchange; nothing of workers.
"""

from __future__ import annotations

import asyncio

from pallas_common.protocol.readiness_request import readiness_request, says_ready

type Address = tuple[str, int] | str
"""Host and port, or the path of a unix socket."""

PROBE_TIMEOUT = 5.0
PROBE_INTERVAL = 0.1


async def probe(address: Address) -> str | None:
    """Ask `/mcp` at `address` once; None if it answered with 200, else why not, in one line."""
    try:
        async with asyncio.timeout(PROBE_TIMEOUT):
            return await _exchange(address)
    except TimeoutError:
        return f"no answer within {PROBE_TIMEOUT:g} s"
    except OSError as error:
        return str(error)


async def _exchange(address: Address) -> str | None:
    port: int | None
    if isinstance(address, str):
        reader, writer = await asyncio.open_unix_connection(address)
        name, port = "localhost", None
    else:
        reader, writer = await asyncio.open_connection(*address)
        host, port = address
        name = f"[{host}]" if ":" in host else host
    try:
        writer.write(readiness_request(name, port, "pallas-supervisor"))
        await writer.drain()
        status_line = (await reader.readline()).decode("latin-1").rstrip()
        return None if says_ready(status_line) else f"answered {status_line!r}"
    finally:
        writer.close()


async def until_answered(address: Address) -> None:
    """Probe until it is answered; the caller bounds the time."""
    while await probe(address) is not None:  # noqa: ASYNC110 - a socket has no event for us
        await asyncio.sleep(PROBE_INTERVAL)
