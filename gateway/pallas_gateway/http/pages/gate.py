"""The gate of the pages: who comes with a browser's session, may it come from here, and what a browser is told if not.

Knows cookies and headers; nothing of what the pages show. Bodies are not read here: a form's token is looked at by
`forms.read_form`, which every handler of a form uses.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.responses import Response
from starlette.routing import Router

from pallas_gateway.http.errors import ApiError
from pallas_gateway.http.pages import cookies
from pallas_gateway.http.pages.forms import MULTIPART, URLENCODED
from pallas_gateway.http.pages.headers import (
    CSRF_HEADER,
    HEADERS,
    SAFE_METHODS,
    header,
    is_from_elsewhere,
    own_target,
    to_root,
    wants_page,
)
from pallas_gateway.http.pages.login_view import error_page, go_on_page
from pallas_gateway.http.pages.requests import is_same, wrong_csrf
from pallas_gateway.http.visits import Visit
from pallas_gateway.identity.errors import InvalidTokenError, MissingTokenError
from pallas_gateway.identity.principals import ANYBODY
from pallas_gateway.identity.sessions import csrf_token, is_text, new_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.routing import BaseRoute
    from starlette.types import Message, Receive, Scope, Send

    from pallas_gateway.identity.sessions import Sessions

PAGE = "/chat"
BELOW = "/chat/"

_HEADERS = [(name.encode(), value.encode()) for name, value in HEADERS.items()]


class Gate:
    """The pages of the gateway.

    Args:
        routes: those that need a session, with their whole paths.
        open_routes: `/` and those below `/chat/` that need none.
        anybody: nobody has to log in (`auth: none`). What changes something still has to come from a page of ours: of
            any other one the browser would send its cookie as well.
        secure: browsers reach the gateway over TLS.
        authority: host and port by which they do, as its public URL says.
    """

    def __init__(
        self,
        sessions: Sessions,
        routes: Sequence[BaseRoute],
        open_routes: Sequence[BaseRoute],
        *,
        anybody: bool,
        secure: bool,
        authority: str,
    ) -> None:
        self.routes = Router(routes, redirect_slashes=False)
        self._open = Router(open_routes, redirect_slashes=False)
        self._sessions = sessions
        self._anybody = anybody
        self._secure = secure
        self._authority = authority

    def has(self, path: str) -> bool:
        """Whether a path is one of the pages'."""
        return path in ("/", PAGE) or path.startswith(BELOW)

    def is_open(self, path: str) -> bool:
        """Whether nobody has to be known for it: what is not among those needs somebody, whether it is there or not."""
        scope = {"type": "http", "path": path, "method": "GET"}
        return any(route.matches(scope)[0].value for route in self._open.routes)

    def table(self, path: str) -> Router:
        """In which routes a path was looked for."""
        return self._open if self.is_open(path) else self.routes

    async def open(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one of those."""
        if scope["method"] not in SAFE_METHODS and is_from_elsewhere(scope["headers"], self._authority):
            raise _from_elsewhere()
        await self._open({**scope, "app": self}, receive, send)

    async def who(self, scope: Scope) -> Visit:
        """Who comes.

        Raises:
            AuthenticationError: nobody who is known.
            ApiError: 403, the request may come from a page of another site.
        """
        headers = scope["headers"]
        is_safe = scope["method"] in SAFE_METHODS
        if not is_safe and is_from_elsewhere(headers, self._authority):
            raise _from_elsewhere()
        text, new = cookies.cookie(headers, cookies.SESSION), None
        if self._anybody:
            principal = ANYBODY
            if text is None or not is_text(text):
                if not is_safe:
                    raise wrong_csrf()
                if is_from_elsewhere(headers, self._authority):
                    # The browser may have one, and has kept it back: another one would make its other tabs strangers.
                    raise MissingTokenError("begin at chat: this browser is not known yet")
                text = new_text()
                new = cookies.set_cookie(cookies.SESSION, text, secure=self._secure)
        else:
            if text is None:
                raise MissingTokenError("log in at chat/login first: there is no session")
            client = scope.get("client")
            principal = await self._sessions.find(text, client[0] if client else "")
        csrf = csrf_token(text)
        return Visit(
            principal=principal,
            csrf=csrf,
            has_session=not self._anybody,
            session=text,
            checked=is_safe or _says(headers, csrf),
            cookie=new,
        )

    def sending(self, send: Send, visit: Visit | None = None) -> Send:
        """`send` with the headers of pages, as far as an answer says nothing else."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                said = list(message.get("headers", ()))
                names = {name.lower() for name, _ in said}
                said += [each for each in _HEADERS if each[0] not in names]
                if visit is not None and visit.cookie is not None:
                    said.append((b"set-cookie", visit.cookie.encode()))
                message = {**message, "headers": said}
            await send(message)

        return with_headers

    def refusal(self, raised: Exception, refusal: Response, scope: Scope) -> Response:
        """The answer to a request that is refused: a browser that asks for a page is led to the login, or shown why."""
        if not wants_page(scope["headers"]):
            return refusal
        path, root = scope["path"], to_root(scope["path"])
        is_unknown = isinstance(raised, MissingTokenError | InvalidTokenError)
        if is_unknown and scope["method"] in ("GET", "HEAD"):
            query = scope["query_string"].decode("latin-1")
            here = own_target(f"chat?{query}" if path == PAGE and query else "chat")
            if path == PAGE and is_from_elsewhere(scope["headers"], self._authority):
                # The cookie is kept from requests that another site has led to (SameSite=Strict): from here, it is not.
                return go_on_page(here, root)
            there = f"{root}chat/login?next={quote(here, safe='')}"
            return Response(status_code=303, headers={"location": there})
        kept = {name: refusal.headers[name] for name in _KEPT if name in refusal.headers}
        return error_page(refusal.status_code, _message(refusal), root, kept, login=is_unknown)


_KEPT = ("retry-after", "allow", "www-authenticate")
"""Headers of a refusal that a page has as well."""


def _says(headers: list[tuple[bytes, bytes]], csrf: str) -> bool:
    """Whether the header says the token; without one a form has to.

    Raises:
        ApiError: 403, it says another one, or nothing else could say it.
    """
    said = header(headers, CSRF_HEADER.lower().encode())
    if said is not None:
        if not is_same(said, csrf):
            raise wrong_csrf()
        return True
    kind = (header(headers, b"content-type") or "").partition(";")[0].strip().lower()
    if kind not in (URLENCODED, MULTIPART):
        raise wrong_csrf()
    return False


def _from_elsewhere() -> ApiError:
    return ApiError(403, "csrf", "the browser says that a page of another site has sent this")


def _message(refusal: Response) -> str:
    """What a refusal says, which is JSON."""
    try:
        return str(json.loads(bytes(refusal.body))["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return "this could not be done"
