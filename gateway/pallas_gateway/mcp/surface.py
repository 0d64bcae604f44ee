"""What a server of MCP is to the protocol: its lists, its calls, who may subscribe. Pure.

The protocol (`endpoint` and below) knows eras, sessions and streams and none of what is served; a surface knows that
and nothing of transports. One is made for a principal and a path, and costs nothing to make.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from pallas_gateway.directory.events.topics import Topic
    from pallas_gateway.identity.grants import Permission
    from pallas_gateway.identity.principal import Principal

type Json = dict[str, Any]

Era = Literal["sessions", "stateless"]
"""`sessions`: initialize, up to 2025-11-25; `stateless`: each request by itself, from 2026-07-28 on."""

ListKind = Literal["tools", "prompts", "resources"]


def _nothing() -> None:
    """It holds none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRequest:
    """One request of a client, its envelope checked."""

    principal: Principal
    era: Era
    version: str
    """Of the protocol, as the client speaks it."""
    id: int | str
    method: str
    params: Mapping[str, Any]
    body: bytes
    """As it came. Not to be passed on: of a key that is there twice another reader may take the other one."""
    headers: Mapping[str, str]
    """In lower case; without `authorization`."""
    session: str | None
    request_id: str
    """Ours, for log, audit and trace."""
    notify: Callable[[Json], Awaitable[None]]
    """Sends a notification on the answer's own stream, before the answer; nothing where the client cannot take it."""
    passes_place: Callable[[], None] = _nothing
    """To be called where something holds the request's place in the limits from now on: a turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relayed:
    """An answer of another server that goes on to the client as it comes."""

    status: int
    content_type: str
    body: bytes | AsyncIterator[bytes]
    """Whole, or the pieces of an event stream; the iterator is closed when the client goes away."""
    is_error: bool = False
    """As far as that is known of one that is whole."""


class McpError(Exception):
    """A request is answered by an error of JSON-RPC.

    Args:
        status: of HTTP; None: what the era of the request says.
    """

    def __init__(
        self, code: int, message: str, data: Json | None = None, *, status: int | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.data = data
        self.status = status


class InsufficientScopeError(Exception):
    """The principal may not do that: 403 with the scope that it would take (RFC 6750, section 3.1)."""

    def __init__(self, permission: Permission) -> None:
        super().__init__(f"this takes the grant {permission}")
        self.permission = permission


class Surface(Protocol):
    """One server of MCP as one principal sees it. Lists hold exactly what the principal may use."""

    @property
    def info(self) -> Json:
        """`serverInfo`: name, title, version."""

    @property
    def instructions(self) -> str | None:
        """For the client's model."""

    @property
    def lists(self) -> frozenset[ListKind]:
        """The lists that there are; `resources` may be subscribed to."""

    @property
    def completes(self) -> bool:
        """Whether `complete` answers."""

    async def tools(self) -> list[Json]:
        """All tools, in an order that stays."""

    async def prompts(self) -> list[Json]:
        """All prompts."""

    async def resources(self) -> list[Json]:
        """All resources.

        Raises:
            InsufficientScopeError: the principal may see none of the kind.
        """

    async def templates(self) -> list[Json]:
        """All resource templates."""

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], request: ClientRequest
    ) -> Json | Relayed:
        """The result of a call.

        Raises:
            McpError: there is no such tool for this principal (-32602), or it cannot be called.
        """

    async def header_schema(self, name: str) -> Json | None:
        """The input schema of a tool that has `x-mcp-header` in it; None for all others, and unknown ones."""

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str], request: ClientRequest
    ) -> Json | Relayed:
        """The prompt with the arguments filled in; raises as `call_tool` does."""

    async def read(self, uri: str, request: ClientRequest) -> Json | Relayed:
        """`{"contents": […]}` of a resource; raises as `call_tool` does."""

    async def complete(self, ref: Json, argument: Json, request: ClientRequest) -> Json | Relayed:
        """`{"completion": {…}}`."""

    async def ready(self) -> None:
        """Awaited before it is first asked who may subscribe to what."""

    def may_subscribe(self, uri: str) -> bool:
        """Whether the principal may hear of the resource; asked again at every delivery."""

    def topics(self, uri: str) -> tuple[Topic, ...]:
        """Of which one changes when the resource does, all different."""

    def list_topic(self, kind: ListKind) -> Topic:
        """What changes when that list does."""

    def audited(self, name: str, arguments: Mapping[str, Any]) -> str:
        """What a call of this tool is in the audit: `agents_create agent/jarvis`, `jarvis/git__commit`.

        Both are as the client sent them. Of the arguments it says no more than which thing the call is about.
        """
