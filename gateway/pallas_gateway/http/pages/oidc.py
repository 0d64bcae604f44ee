"""Logging in by the issuer: to its page, and back."""

from __future__ import annotations

import base64
import binascii
import time
from typing import TYPE_CHECKING

from starlette.routing import Route

from pallas_gateway.http.pages import cookies
from pallas_gateway.http.pages.headers import own_target
from pallas_gateway.http.pages.login import see_other
from pallas_gateway.http.pages.login_view import error_page, go_on_page
from pallas_gateway.identity.errors import InvalidTokenError
from pallas_gateway.identity.principal import Principal
from pallas_gateway.identity.sessions import is_text, new_text
from pallas_gateway.telemetry import metrics

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

    from pallas_gateway.http.pages.login import Login
    from pallas_gateway.identity.issuer.code_flow import CodeFlow
    from pallas_gateway.identity.sessions import Sessions

LASTS = 600
"""Seconds that somebody has at the issuer's page."""

BY_ISSUER = "by the issuer"
_PARAMETERS = ("state", "code", "iss", "error")


class LoginByIssuer:
    """The two addresses of a login by an issuer.

    Args:
        clock: seconds since the epoch.
    """

    def __init__(
        self,
        flow: CodeFlow,
        sessions: Sessions,
        login: Login,
        *,
        secure: bool,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._flow = flow
        self._sessions = sessions
        self._login = login
        self._secure = secure
        self._clock = clock

    def open_routes(self) -> list[BaseRoute]:
        """They need no session."""
        return [
            Route("/chat/oidc", self._begin, methods=["GET"]),
            Route("/chat/callback", self._callback, methods=["GET"]),
        ]

    async def _begin(self, request: Request) -> Response:
        secret = new_text()
        answer = see_other(await self._flow.begin(secret))
        next_ = base64.urlsafe_b64encode(own_target(request.query_params.get("next")).encode())
        kept = f"{secret}.{int(self._clock())}.{next_.rstrip(b'=').decode()}"
        # Lax: it has to be there when the issuer's page leads back.
        answer.headers.append(
            "set-cookie",
            cookies.set_cookie(cookies.LOGIN, kept, secure=self._secure, same_site="Lax", max_age=LASTS),
        )
        return answer

    async def _callback(self, request: Request) -> Response:
        try:
            answer = await self._finish(request)
        except InvalidTokenError as error:
            metrics.count_denied(error.reason)
            self._login.denied(request, BY_ISSUER)
            answer = error_page(401, f"{error}.", "../", login=True)
        answer.headers.append(
            "set-cookie",
            cookies.set_cookie(cookies.LOGIN, "", secure=self._secure, same_site="Lax", max_age=0),
        )
        return answer

    async def _finish(self, request: Request) -> Response:
        kept = cookies.cookie(request.scope["headers"], cookies.LOGIN)
        secret, next_ = self._read(kept or "")
        said = {}
        for name in _PARAMETERS:
            values = request.query_params.getlist(name)
            if len(values) > 1:  # RFC 6749, section 3.1
                raise InvalidTokenError("the answer of the issuer says a thing twice")
            said.update(dict.fromkeys([name], values[0]) if values else {})
        issued = await self._flow.finish(secret, said)
        if not issued.groups:
            metrics.count_denied("scope")
            self._login.denied(request, BY_ISSUER, Principal(id=issued.id, name=issued.name, role="human"))
            return error_page(
                403,
                f"You are logged in at the issuer as {issued.name}, but none of your groups may do anything here. "
                "An administrator gives grants to a group of yours in agents.yaml, under gateway.oidc.groups.",
                "../",
                login=True,
            )
        opened = await self._sessions.open_issued(issued)
        await self._login.logged_in(request, opened, BY_ISSUER)
        # Another site has led here: only what a page of ours asks for is sent the cookie that is set now.
        return self._login.with_session(go_on_page(f"../{next_}", "../"), opened)

    def _read(self, kept: str) -> tuple[str, str]:
        """The secret of the login that the browser has begun, and where it goes on.

        Raises:
            InvalidTokenError: it has begun none, or too long ago.
        """
        secret, _, rest = kept.partition(".")
        begun, _, next_ = rest.partition(".")
        now = self._clock()
        # What is in a cookie the browser can change; what counts is that the issuer's code is of this secret.
        if not is_text(secret) or not begun.isdecimal() or not now - LASTS <= int(begun[:15]) <= now + 1:
            raise InvalidTokenError(
                f"this login was not begun in this browser, or more than {LASTS // 60} minutes ago"
            )
        try:
            target = base64.urlsafe_b64decode(next_ + "=" * (-len(next_) % 4)).decode()
        except (binascii.Error, ValueError):
            target = "chat"
        return secret, own_target(target)
