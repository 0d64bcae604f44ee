"""What all ports refuse before anything is asked: names and origins that are not ours, and heads that can be misread.

Knows Host and Origin (RFC 9110, 7.2; RFC 6454) and ASGI; nothing of what is served. Without it, a page of another site
could have its own name resolve to this machine (DNS rebinding), and a visitor's browser would read for it what listens
on loopback alone. An address cannot be made to resolve to another one, so that it may always stand in Host.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, NamedTuple

from starlette.responses import PlainTextResponse, Response

from pallas_common.problems import quoted
from pallas_common.secrets.tokens import without_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from starlette.types import ASGIApp, Receive, Scope, Send

LOOPBACK = ("localhost", "127.0.0.1", "::1")

OPEN_PATH = "/livez"
"""Says nothing, and is answered under any name."""

MAX_TARGET = 8 * 1024
"""Bytes of a path with its query; none of ours is long."""

_SLASHES = re.compile("/{2,}")
_RAW_SLASHES = re.compile(b"/{2,}")
_AUTHORITY = re.compile(r"(?:\[([^\[\]]*)\]|([^:\[\]]*))(?::[0-9]*)?")
_ORIGIN = re.compile(r"https?://([^/?#\s]+)")


class Refusal(NamedTuple):
    """Why a request is not answered."""

    status: int
    message: str


_LENGTHS = frozenset((b"content-length", b"transfer-encoding"))
_AMBIGUOUS = Refusal(400, "Content-Length and Transfer-Encoding together: send one of the two")
"""Somebody between could have taken other bytes for the body, and the rest for the next request (RFC 9112, 6.1)."""


class Hosts:
    """The names and addresses by which a deployment is reached, with any port."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(map(_normal, names))

    def refusal(self, host: str | None, origin: str | None) -> Refusal | None:
        """Why a request with these headers is not answered, or None if it is.

        One without a Host (HTTP/1.0, from a simple health check) comes from no browser.
        """
        if host is not None and not self._is_ours(host):
            return Refusal(421, f"not reached by the name {_shown(host)}; {_REMEDY}")
        if origin is not None and not self._is_allowed(origin, host):
            return Refusal(403, f"not for pages of {_shown(origin)}; {_REMEDY}")
        return None

    def _is_ours(self, host: str) -> bool:
        name = _name_in(host)
        return name is not None and (name in self._names or _is_address(name))

    def _is_allowed(self, origin: str, host: str | None) -> bool:
        match = _ORIGIN.fullmatch(origin.lower())
        if match is None:
            return False  # `null`, or something that no page is served by
        authority = match[1]
        same = host is not None and authority == host.lower()
        return same or _name_in(authority) in self._names


class HostGuard:
    """Passes on the requests of those that may ask.

    Args:
        hosts: asked for at each request.
    """

    def __init__(self, app: ASGIApp, hosts: Callable[[], Hosts]) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        plain = plain_scope(scope)
        if (refusal := self._refusal(plain)) is not None:
            headers = {"connection": "close"} if refusal is _AMBIGUOUS else None
            response = PlainTextResponse(f"{refusal.message}\n", refusal.status, headers)
            await response(scope, receive, send)
        elif plain is not scope and (place := _page_elsewhere(scope)) is not None:
            await Response(status_code=308, headers={"location": place})(scope, receive, send)
        else:
            await self._app(plain, receive, send)

    def _refusal(self, scope: Scope) -> Refusal | None:
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > MAX_TARGET:
            return Refusal(414, f"the path and its query are longer than {MAX_TARGET} bytes")
        host = origin = None
        names = set()
        for name, value in scope["headers"]:
            names.add(name)
            if name == b"host":
                host = value.decode("latin-1")
            elif name == b"origin":
                origin = value.decode("latin-1")
        if names >= _LENGTHS:
            return _AMBIGUOUS
        if scope["path"] == OPEN_PATH:
            return None
        return self._hosts().refusal(host, origin)


def plain_scope(scope: Scope) -> Scope:
    """The request for the same path without double slashes, and without one at its end: they stand for the same.

    To be made plain before anybody decides by the path.
    """
    path = scope["path"]
    if "//" not in path and (len(path) == 1 or not path.endswith("/")):
        return scope
    raw = scope.get("raw_path") or path.encode()
    return {
        **scope,
        "path": _SLASHES.sub("/", path).rstrip("/") or "/",
        "raw_path": _RAW_SLASHES.sub(b"/", raw).rstrip(b"/") or b"/",
    }


def _page_elsewhere(scope: Scope) -> str | None:
    """Where a browser is to look for a page with a slash at its end, as addresses in pages are relative."""
    if scope["method"] not in ("GET", "HEAD") or "//" in scope["path"]:
        return None
    if not any(name == b"accept" and b"text/html" in value for name, value in scope["headers"]):
        return None
    last = (
        (scope.get("raw_path") or scope["path"].encode()).rstrip(b"/").rpartition(b"/")[2].decode("latin-1")
    )
    query = scope["query_string"].decode("latin-1")
    return f"../{last}" + (f"?{query}" if query else "")


def served_hosts(host: str, more: Iterable[str], bind: str) -> tuple[str, ...]:
    """The names by which the ports of a deployment are reached: what it says, its address, and the loopback names.

    Args:
        host: `host` of `agents.yaml`.
        more: its `hosts`.
        bind: its `bind`.
    """
    names = [*LOOPBACK, host, *more]
    if not (_is_address(bind) and ipaddress.ip_address(bind).is_unspecified):
        names.append(bind)
    return tuple(dict.fromkeys(names))


_REMEDY = "a name or address by which clients reach this deployment belongs to `hosts:` in agents.yaml"


def _shown(text: str) -> str:
    return without_tokens(quoted(text, 100))


def _name_in(authority: str) -> str | None:
    """The host in `host`, `host:port` or `[address]:port`; None if it is none of them."""
    match = _AUTHORITY.fullmatch(authority)
    name = match and (match[1] or match[2])
    return _normal(name) if name else None


def _normal(name: str) -> str:
    """One spelling for each name or address."""
    lower = name.lower().removesuffix(".")
    try:
        return str(ipaddress.ip_address(lower))
    except ValueError:
        return lower


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
