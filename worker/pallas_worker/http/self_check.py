"""Before a worker accepts anything: does it answer MCP through its whole HTTP stack?

Knows one HTTP exchange; nothing of sockets or agents. During a graceful replacement only the worker itself can ask: a
probe of the port might be answered by the worker that it replaces.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pallas_common.protocol.readiness_request import readiness_request, says_ready

if TYPE_CHECKING:
    from pallas_common.http.server import HttpServer

TIMEOUT = 10.0
"""Seconds that the answer may take."""


async def self_check(server: HttpServer, port: int | None, key: str | None = None) -> str | None:
    """Why an `initialize` is not answered with status 200, in one line; None if it is.

    Args:
        key: that opens the port; None where there is none.
    """
    try:
        async with asyncio.timeout(TIMEOUT):
            response = await server.exchange(readiness_request("localhost", port, "pallas-worker", key))
    except TimeoutError:
        return f"the worker does not answer itself within {TIMEOUT:g} s"
    status_line = response.partition(b"\r\n")[0].decode("latin-1")
    return None if says_ready(status_line) else f"the worker answers itself with {status_line!r}"
