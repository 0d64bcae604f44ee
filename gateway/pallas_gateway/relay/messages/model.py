"""What the relay takes and gives: a call, its answer, a server's state and lists. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

type Json = dict[str, Any]

Era = Literal["sessions", "stateless"]
"""As in `mcp/surface.py`: with `initialize`, up to 2025-11-25; each request by itself, from 2026-07-28 on."""

SESSIONS_VERSION = "2025-11-25"
STATELESS_VERSION = "2026-07-28"

State = Literal["initializing", "running", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request of a client that goes on to a server."""

    method: str
    params: Mapping[str, Any]
    """The client's, with the server's own name in them."""
    id: int | str
    era: Era
    """What the client speaks."""
    timeout: float | None
    """Seconds until the whole answer is there."""
    caller: str | None = None
    """Whose it is: a session of the server is nobody else's. None: the gateway's own."""
    tool_headers: Mapping[str, str] = field(default_factory=dict)
    """`Mcp-Param-…`, for servers of 2026-07-28."""
    trace: Mapping[str, str] = field(default_factory=dict)
    """`traceparent` and `tracestate`, where the call belongs to a trace; they go in `_meta` and as headers."""

    def within(self, seconds: float | None) -> Call:
        """The call with no more time than that."""
        if seconds is None or (self.timeout is not None and self.timeout <= seconds):
            return self
        return replace(self, timeout=seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What goes back to the client: one JSON-RPC response, or an event stream that ends with one."""

    status: int
    content_type: str
    body: bytes | AsyncIterator[bytes]
    is_error: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """What a server says of itself."""

    era: Era
    version: str
    capabilities: Json
    info: Json
    instructions: str | None


class ServerError(Exception):
    """The server answered with an error of JSON-RPC."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


type Heard = Callable[[str, Json], None]
"""Takes a notification of a server: its method and its params; `OPENED` once all changes from then on are heard."""

OPENED = "opened"


class Link(Protocol):
    """A connection to one server, of whatever transport."""

    transport: str

    @property
    def connections(self) -> int:
        """How many are open now."""

    @property
    def shares_connections(self) -> bool:
        """Whether they are those of another link to the same server."""

    @property
    def keeps_sessions(self) -> bool:
        """Whether the server keeps something for each that connects, as far as it is known."""

    def another(self) -> Link:
        """A link to the same server for a session of its own, where it keeps such; for calls."""

    async def open(self) -> Opened:
        """Connect and agree on an era.

        Raises:
            RelayError, ServerError: it cannot be.
        """

    async def request(self, method: str, params: Json, *, timeout: float) -> Json:
        """The result of a request of our own; raises as `open` does."""

    async def relay(self, call: Call) -> Answer:
        """The answer to a client's request; raises RelayError where there is none."""

    async def watch(self, uris: frozenset[str], heard: Heard) -> None:
        """Hear of changes of the lists and of these resources; returns only where the server cannot tell of any.

        Raises:
            LostError: the server has ended that, or the connection broke off.
        """

    async def resubscribe(self, before: frozenset[str], after: frozenset[str]) -> bool:
        """Have a `watch` that goes on hear of other resources; False where it takes a new one.

        Raises:
            RelayError: the server is lost.
        """

    async def close(self) -> None:
        """End it, and all that came of it."""
