"""Headers of all pages, and what a request says of where it comes from. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
"""Content Security Policy Level 3: nothing in a page runs, loads or sends but what is the gateway's own; no frame of
another site shows it."""

HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    # Not `no-referrer`: with it browsers send `Origin: null` with a form (Fetch, "append a request Origin header").
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
"""Unless an answer says otherwise."""

CSRF_HEADER = "Pallas-CSRF"

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

_OWN_TARGET = re.compile(r"chat(?:\?[A-Za-z0-9._~%&=+:,/-]{0,1000})?")

type RawHeaders = Iterable[tuple[bytes, bytes]]


def header(headers: RawHeaders, name: bytes) -> str | None:
    """The first header of that name, in lower case as ASGI has it."""
    return next((value.decode("latin-1") for each, value in headers if each == name), None)


def wants_page(headers: RawHeaders) -> bool:
    """Whether a browser asks for something to show."""
    return "text/html" in (header(headers, b"accept") or "").lower()


def is_from_elsewhere(headers: RawHeaders, authority: str) -> bool:
    """Whether the browser says that another origin has made it send this (Fetch Metadata: `Sec-Fetch-Site`).

    `same-site` is one as well: another port of this machine, or another name of the domain. Over plain http browsers
    say so to loopback addresses alone; elsewhere `Origin` does it, which forms have, and links have not.

    Args:
        authority: host and port of the gateway's public URL, where a proxy says another `Host` than the browser.
    """
    if (site := header(headers, b"sec-fetch-site")) is not None:
        return site.lower() not in ("none", "same-origin")
    origin = header(headers, b"origin")
    own = ((header(headers, b"host") or "").lower(), authority.lower())
    return origin is not None and origin.lower().partition("://")[2] not in own


def to_root(path: str) -> str:
    """The relative way from a path to the gateway's root: nothing from `/chat`, `../` from `/chat/login`."""
    return "../" * (path.count("/") - 1)


def own_target(said: str | None) -> str:
    """Where a login goes on: a page of ours, relative to the root, as `chat?…`; whatever else is said is `chat`."""
    return said if said is not None and _OWN_TARGET.fullmatch(said) else "chat"
