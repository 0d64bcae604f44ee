"""How a call of an agent fails, apart from an error that is its result. Messages are for people, in one line.

Knows nothing of HTTP or sockets.
"""

from __future__ import annotations

from typing import ClassVar


class CallError(Exception):
    """The agent gave no result. `kind` is the word for it in documents."""

    kind: ClassVar[str] = "error"

    def __init__(self, message: str, *, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after = retry_after
        """Seconds after which it is worth asking again, where the other side says so."""


class NoConnectionError(CallError):
    """Nothing answers at the endpoint."""

    kind = "unreachable"


class UnavailableError(CallError):
    """The agent is down (503); the message says why."""

    kind = "unavailable"


class BusyError(CallError):
    """So many calls wait there that one more is refused."""

    kind = "busy"


class TooLargeError(CallError):
    """The request is larger than the agent takes (413)."""

    kind = "too_large"


class RefusedCallError(CallError):
    """Another HTTP status, or a JSON-RPC error."""

    kind = "refused"


class WrongAnswerError(CallError):
    """What came is no answer of an MCP server, or larger than any answer may be."""

    kind = "wrong_answer"


class ConnectionLostError(CallError):
    """The connection ended before the answer."""

    kind = "lost"


class LateError(CallError):
    """No answer within the time that was given; the call has been cancelled."""

    kind = "timeout"
