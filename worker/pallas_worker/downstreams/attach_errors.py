"""Why a downstream server could not be attached, in one line: fast-agent wraps the reason in several exceptions.

Knows the exceptions of the MCP client and of HTTP; must not know what follows. None of the words are the exceptions'
own, which may hold a header. What the server has said on stderr is bounded and without secrets before it comes here.
"""

from __future__ import annotations

import errno

import httpx2
from fast_agent.core.exceptions import walk_exception_chain
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED

from pallas_common.http.reach import REFUSED
from pallas_common.problems import shortened
from pallas_worker.downstreams.closed import is_forbidden

LONGEST = 300
"""Characters of a reason."""


def why_unattached(error: BaseException, said: str | None = None) -> str:
    """The reason; `said` is what a server that runs as a command has said last since it was started."""
    links = list(walk_exception_chain(error))
    reasons = [reason for link in reversed(links) if (reason := _reason(link)) is not None]
    reason = reasons[0] if reasons else f"failed: {type(links[-1]).__name__}"
    line = f"{reason}: {said}" if said else reason
    return shortened(line, LONGEST)


def _reason(error: BaseException) -> str | None:
    match error:
        case httpx2.HTTPStatusError():
            return f"HTTP {error.response.status_code}"
        case httpx2.ConnectError() if is_forbidden(error):
            return REFUSED
        case httpx2.ConnectError():
            return "cannot connect"
        case TimeoutError() | httpx2.TimeoutException():
            return "no answer in time"
        case FileNotFoundError() | PermissionError():
            return "its command cannot be started"
        case OSError() if error.errno in (errno.EMFILE, errno.ENFILE):
            return "the worker has no file descriptor left"
        case MCPError() if error.code == CONNECTION_CLOSED:
            return "ended before it answered"
        case MCPError():
            return f"JSON-RPC error {error.code}"
        case _:
            return None
