"""Cookies (RFC 6265bis): read and written. Pure.

None says a path: the default one, that of the page which sets it, is `<prefix>/chat`, wherever a proxy has put the
gateway, for all pages are `chat/…` (section 5.1.4).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pallas_gateway.http.pages.headers import RawHeaders

SESSION = "pallas_session"
"""The browser's session."""
LOGIN = "pallas_login"
"""A login by the issuer that is under way."""

LONGEST = 2048
"""Characters of a value that is looked at."""

_VALUE = re.compile(rf"[A-Za-z0-9._~-]{{1,{LONGEST}}}")


def cookie(headers: RawHeaders, name: str) -> str | None:
    """The value of a cookie; None if there is none, or one that was not set here.

    Of several, the first counts: browsers send that of the longest path first (section 5.8.3).
    """
    for each, value in headers:
        if each != b"cookie":
            continue
        for pair in value.decode("latin-1").split(";"):
            found, _, text = pair.strip().partition("=")
            if found == name:
                return text if _VALUE.fullmatch(text) else None
    return None


def set_cookie(
    name: str,
    value: str,
    *,
    secure: bool,
    same_site: Literal["Strict", "Lax"] = "Strict",
    max_age: int | None = None,
) -> str:
    """A header `Set-Cookie`.

    Args:
        secure: whether browsers send it over TLS alone.
        max_age: seconds; None: until the browser is closed; 0 takes it away.
    """
    parts = [f"{name}={value}", "HttpOnly", f"SameSite={same_site}"]
    if secure:
        parts.append("Secure")
    if max_age is not None:
        parts.append(f"Max-Age={max_age}")
    return "; ".join(parts)
