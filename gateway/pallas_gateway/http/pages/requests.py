"""What handlers of pages are given: who asks, and the token against cross-site requests."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from pallas_gateway.http.errors import ApiError
from pallas_gateway.http.pages.headers import CSRF_HEADER
from pallas_gateway.http.requests import admitted_of
from pallas_gateway.http.visits import VISIT

if TYPE_CHECKING:
    from starlette.requests import Request

    from pallas_gateway.http.visits import Visit

__all__ = ["admitted_of", "check_csrf", "csrf_of", "has_session", "visit_of"]

CSRF_FIELD = "csrf"


def visit_of(request: Request) -> Visit:
    """The visit that a request is; there is one for each route that needs a session."""
    visit: Visit = request.scope[VISIT]
    return visit


def csrf_of(request: Request) -> str:
    """What a form of this session has in its field `csrf`, or a request in its header `Pallas-CSRF`."""
    return visit_of(request).csrf


def has_session(request: Request) -> bool:
    """Whether somebody has logged in, and can log out: not where everybody is let in (`auth: none`)."""
    return visit_of(request).has_session


def check_csrf(request: Request, field: object = None) -> None:
    """Refuse a request that changes something and does not say this session's token.

    Args:
        field: the form's field `csrf`; a header says it as well.

    Raises:
        ApiError: 403.
    """
    visit = visit_of(request)
    if not visit.checked and not (isinstance(field, str) and is_same(field, visit.csrf)):
        raise wrong_csrf()


def is_same(said: str, csrf: str) -> bool:
    """Whether it is the right token, in constant time."""
    return hmac.compare_digest(said.encode("utf-8", "surrogateescape"), csrf.encode())


def wrong_csrf() -> ApiError:
    """403: there is no right token."""
    return ApiError(
        403,
        "csrf",
        f"the request does not say the token of its page (header {CSRF_HEADER} or field {CSRF_FIELD}): "
        "load the page anew and try again",
    )
