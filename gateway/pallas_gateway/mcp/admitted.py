"""What the protocol gets from others, and tells them: a request that is let in; the audit, metrics and spans. Pure.

It knows none of them; who makes an `Endpoint` passes them in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.types import Receive, Scope, Send

    from pallas_gateway.identity.principal import Principal
    from pallas_gateway.mcp.surface import ClientRequest, Json, Surface


def _nothing() -> None:
    """Nobody counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """What is known of a request before its body is read. It ends, cancelled, when its principal's token does."""

    principal: Principal
    path: str
    """`/mcp`, `/mcp/agents/jarvis`, `/mcp/projects/p`: a session belongs to the principal and the path."""
    request_id: str
    """Ours, for log, audit and trace."""
    headers: Mapping[str, str]
    """In lower case; without `authorization`, `proxy-authorization` and `cookie`."""
    opens_stream: Callable[[], None]
    """To be called once it is known that it stays open (GET, `subscriptions/listen`): it holds no place any more."""
    passes_place: Callable[[], None] = _nothing
    """To be called once something else holds its place, which goes on without it."""
    subscribes: Callable[[], None]
    """To be called for each request to subscribe or unsubscribe; raises McpError beyond the rate."""
    most_subscriptions: int
    """Resources that the principal may have subscribed to at a time."""
    longest_body: int
    """Bytes of a request's body."""


class Endpoint(Protocol):
    """The protocol of MCP over HTTP, in both eras: answers GET, POST and DELETE."""

    async def __call__(
        self, scope: Scope, receive: Receive, send: Send, admitted: Admitted, surface: Surface
    ) -> None:
        """Answer the request from the surface."""


Outcome = Literal["ok", "failed", "error", "denied", "limited", "cancelled"]
"""How a request ended: with a result; with a tool's own failure (`isError`); with an error of JSON-RPC; for want of a
grant; over a limit; because the client took it back or went away."""


class AuditUnavailableError(Exception):
    """Nothing can be written to the audit, so that nothing may be done that it has to have; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedCall:
    """A call of a tool that has been made."""

    request: ClientRequest
    what: str
    """Which tool, as `Surface.audited` says."""
    arguments: Mapping[str, Any]
    outcome: Outcome
    code: int | None
    """Of the error."""
    duration: float
    """Seconds."""
    result: Json | bytes | None
    """Where there is one that is whole."""
    begun: object = None
    """What `Audit.begin` has given."""


class Audit(Protocol):
    """What is written down about calls."""

    def begin(self, request: ClientRequest, what: str) -> object:
        """Write down that a call begins; what its end is to be told with.

        Raises:
            AuditUnavailableError: it cannot be written down, and is not made.
        """

    def called(self, call: AuditedCall) -> None:
        """Write it down; the client gets its answer afterwards.

        Raises:
            AuditUnavailableError: it cannot be; the client gets an error.
        """


class Observation(Protocol):
    """One request that is under way."""

    def end(self, outcome: Outcome, code: int | None) -> None:
        """It is over. Called once, in the task that began it; does not raise."""


class Observe(Protocol):
    """Metrics and spans."""

    def begin(self, request: ClientRequest, name: str | None) -> Observation:
        """A request begins; `name` is the tool, prompt or URI that it names. Does not raise."""


class Unaudited:
    """Writes nothing down: for tests, and for what is not a call of a tool."""

    def begin(self, request: ClientRequest, what: str) -> object:
        """Always."""

    def called(self, call: AuditedCall) -> None:
        """Nothing."""


class Unobserved:
    """Counts nothing."""

    def begin(self, request: ClientRequest, name: str | None) -> Unobserved:
        """Itself."""
        return self

    def end(self, outcome: Outcome, code: int | None) -> None:
        """Nothing."""
