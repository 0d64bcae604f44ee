"""What the port asks of the pages: which paths are theirs, and who somebody is that comes with a browser's session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.routing import Router
    from starlette.types import Receive, Scope, Send

    from pallas_gateway.identity.principal import Principal

VISIT = "pallas.visit"
"""Where in a request's scope it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """A request to a page, by somebody who is known."""

    principal: Principal
    csrf: str
    """What a request that changes something has to say."""
    has_session: bool
    """Whether there is a login that can be ended."""
    session: str = ""
    """The session's text."""
    checked: bool = False
    """Whether the request has said the right token in its header; else a form has to."""
    cookie: str | None = None
    """To be set with the answer."""

    def __repr__(self) -> str:
        """Without what is secret."""
        return f"Visit({self.principal!r})"


class Pages(Protocol):
    """The pages for people."""

    routes: Router
    """Those for which somebody has to be known."""

    def has(self, path: str) -> bool:
        """Whether a path is theirs."""

    def is_open(self, path: str) -> bool:
        """Whether it is one of theirs for which nobody has to be known."""

    def table(self, path: str) -> Router:
        """In which routes a path was looked for."""

    async def open(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one of those."""

    async def who(self, scope: Scope) -> Visit:
        """Who comes.

        Raises:
            AuthenticationError: nobody who is known.
            ApiError: 403, the request may come from a page of another site.
        """

    def sending(self, send: Send, visit: Visit | None = None) -> Send:
        """`send` with the headers of pages."""

    def refusal(self, raised: Exception, refusal: Response, scope: Scope) -> Response:
        """The answer to a request that is refused, for a browser; `refusal` is what programs are told."""
