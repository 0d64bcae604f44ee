"""Logging in with a token, and logging out."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.responses import Response
from starlette.routing import Route

from pallas_gateway.access.audit import Entry
from pallas_gateway.http.pages import cookies
from pallas_gateway.http.pages.forms import parse_form, read_form
from pallas_gateway.http.pages.headers import own_target
from pallas_gateway.http.pages.login_view import login_page
from pallas_gateway.http.pages.requests import admitted_of, visit_of
from pallas_gateway.http.requests import REQUEST_ID
from pallas_gateway.identity.errors import InvalidTokenError, NotForPeopleError
from pallas_gateway.identity.gcra import Rates
from pallas_gateway.identity.principal import Principal
from pallas_gateway.identity.sessions import LONGEST
from pallas_gateway.telemetry import metrics

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.routing import BaseRoute

    from pallas_common.protocol.gateway import GatewaySettings
    from pallas_gateway.access.audit import Audit
    from pallas_gateway.access.limits import Limiter
    from pallas_gateway.identity.sessions import Opened, Sessions

LONGEST_FORM = 16 * 1024
"""Bytes: a token, where it goes on, and the token against cross-site requests."""


WRITTEN_PER_MINUTE = 60
"""Tries to log in that the audit has, if they go wrong: who has no token could fill it, and push out all else."""
BY_FORM = "with a token"

STRANGER = Principal(id="unknown", name="somebody unknown", role="human")
"""Who has tried to log in, in the audit."""


class Login:
    """The pages to log in and out."""

    def __init__(self, settings: GatewaySettings, sessions: Sessions, limiter: Limiter, audit: Audit) -> None:
        self._sessions = sessions
        self._limiter = limiter
        self._audit = audit
        self._strangers = Rates(WRITTEN_PER_MINUTE)
        self._anybody = settings.auth == "none"
        self._secure = is_secure(settings)
        oidc = settings.oidc
        self._issuer = urlsplit(oidc.issuer).netloc if oidc is not None and oidc.client_id else None

    def open_routes(self) -> list[BaseRoute]:
        """Those that need no session."""
        return [
            Route("/", self._root, methods=["GET"]),
            Route("/chat/login", self._show, methods=["GET"]),
            Route("/chat/login", self._login, methods=["POST"]),
        ]

    def routes(self) -> list[BaseRoute]:
        """Those that need one."""
        return [Route("/chat/logout", self._logout, methods=["POST"])]

    async def _root(self, request: Request) -> Response:
        return see_other("chat")

    async def _show(self, request: Request) -> Response:
        next_ = own_target(request.query_params.get("next"))
        if self._anybody:
            return see_other(f"../{next_}")
        return login_page(200, next_=next_, issuer=self._issuer)

    async def _login(self, request: Request) -> Response:
        if self._anybody:
            return see_other("../chat")
        form = await parse_form(request, LONGEST_FORM)
        token, said = form.get("token"), form.get("next")
        next_ = own_target(said if isinstance(said, str) else None)
        address = request.client.host if request.client else ""
        try:
            opened = await self._sessions.open_with_token(
                token.strip() if isinstance(token, str) else "", address, self._admit
            )
        except (InvalidTokenError, NotForPeopleError) as error:
            metrics.count_denied(error.reason)
            self.denied(request, BY_FORM)
            return login_page(401, next_=next_, issuer=self._issuer, problem=str(error))
        await self.logged_in(request, opened, BY_FORM)
        return self.with_session(see_other(f"../{next_}"), opened)

    def _admit(self, principal: Principal) -> None:
        """A login is a request of whoever logs in, and nothing is done that could not be written down."""
        self._limiter.enter(principal)()
        self._audit.check()

    def denied(self, request: Request, how: str, who: Principal = STRANGER) -> None:
        """Somebody has tried to log in: that is in the audit, as far as strangers do not try it too often."""
        if self._strangers.take("", time.monotonic()):
            return
        self._audit.write(
            Entry(
                principal=who,
                action="session.open",
                target=f"session {how} from {request.client.host if request.client else 'nowhere'}",
                outcome="denied",
                request_id=request.scope.get(REQUEST_ID),
            )
        )

    async def logged_in(self, request: Request, opened: Opened, how: str) -> None:
        """Somebody has logged in: that is in the audit, and another session of the same browser ends.

        A login never goes on with a session that was there before: somebody else may know it.
        """
        principal = opened.principal
        try:
            self._audit.write(
                Entry(
                    principal=principal,
                    action="session.open",
                    target=f"session {how}",
                    request_id=request.scope.get(REQUEST_ID),
                )
            )
        except Exception:
            await self._sessions.close(opened.text)  # what cannot be audited is not done
            raise
        before = cookies.cookie(request.scope["headers"], cookies.SESSION)
        if before is not None:
            await self._sessions.close(before)

    def with_session(self, answer: Response, opened: Opened) -> Response:
        """The answer, with the session's cookie: who closes the browser goes on the next day, as long as it counts."""
        kept = cookies.set_cookie(cookies.SESSION, opened.text, secure=self._secure, max_age=round(LONGEST))
        answer.headers.append("set-cookie", kept)
        return answer

    async def _logout(self, request: Request) -> Response:
        await read_form(request, LONGEST_FORM)
        visit, admitted = visit_of(request), admitted_of(request)
        if visit.has_session:
            self._audit.write(
                Entry(
                    principal=visit.principal,
                    action="session.close",
                    target="session",
                    request_id=admitted.request_id,
                    frees=True,
                )
            )
            await self._sessions.close(visit.session)
        answer = see_other("login")
        answer.headers.append(
            "set-cookie", cookies.set_cookie(cookies.SESSION, "", secure=self._secure, max_age=0)
        )
        return answer


def is_secure(settings: GatewaySettings) -> bool:
    """Whether browsers reach the gateway over TLS."""
    return urlsplit(settings.public_url).scheme == "https"


def see_other(location: str) -> Response:
    """303, to a relative address (RFC 9110, section 10.2.2)."""
    return Response(status_code=303, headers={"location": location})
