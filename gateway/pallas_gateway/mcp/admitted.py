"""A request of somebody who is known and within their limits, as the protocol gets it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.types import Receive, Scope, Send

    from pallas_gateway.identity.principal import Principal
    from pallas_gateway.mcp.surface import Surface


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
