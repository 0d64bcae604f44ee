"""What a failure of a downstream server means: why it could not be attached, in one line, and whether it is lost.

fast-agent wraps the reason in several exceptions.

Knows the exceptions of the MCP client and of HTTP; must not know what follows. None of the words are the exceptions'
own, which may hold a header. What the server has said on stderr is bounded and without secrets before it comes here.
"""

from __future__ import annotations

import errno
import re

import httpx2
from fast_agent.core.exceptions import walk_exception_chain
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, UNSUPPORTED_PROTOCOL_VERSION, CallToolResult, TextContent

from pallas_common.http.reach import REFUSED
from pallas_common.problems import shortened
from pallas_worker.downstreams.closed import is_forbidden

_UNKNOWN_TOOL = re.compile(
    r"(MCP error -?\d+: )?(unknown tool|no such tool|tool not found|tool \S{1,100} (is )?(not found|unknown))",
    re.IGNORECASE,
)

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


def is_loss(error: BaseException) -> bool:
    """Whether a server has failed, or is another one now, rather than answered that something is wrong."""
    if isinstance(error, MCPError):
        return error.code in (CONNECTION_CLOSED, UNSUPPORTED_PROTOCOL_VERSION) or _is_unknown_tool(str(error))
    return not isinstance(error, RuntimeError)  # which says that an answer does not fit its schema


def has_other_tools(result: object) -> bool:
    """Whether a result says that there is no such tool: the server's list is another one than that which is known."""
    if not isinstance(result, CallToolResult) or not result.is_error or not result.content:
        return False
    first = result.content[0]
    return isinstance(first, TextContent) and _is_unknown_tool(first.text)


def _is_unknown_tool(said: str) -> bool:
    """Whether that is how servers say it: those of the SDKs for Python and TypeScript, and most others."""
    return _UNKNOWN_TOOL.match(said[:200]) is not None


def is_silence(error: Exception) -> bool:
    """Whether the server gave no answer at all; what it refuses, it may refuse to one caller's token only."""
    silent = (TimeoutError, httpx2.TimeoutException, httpx2.ConnectError)
    return any(isinstance(link, silent) for link in walk_exception_chain(error))
