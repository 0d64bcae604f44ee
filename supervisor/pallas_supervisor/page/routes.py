"""The page over HTTP: `/`, the view that its script asks for, script and style.

Knows Starlette and caching. What is rendered is kept for a moment, so that many who look cost as much as one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from email.utils import formatdate
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.routing import Route

from pallas_registry.exposition import accepts_gzip, compressed
from pallas_supervisor.page.render import page, view

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping

    from starlette.requests import Request

    from pallas_supervisor.page.facts import FleetFacts

FRESH = 0.5
"""Seconds for which a view is shown again."""

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
"""Nothing from elsewhere, nothing inline, and no frame around it."""

_HEADERS: Mapping[str, str] = {
    "content-security-policy": POLICY,
    "cache-control": "no-cache",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "vary": "Accept-Encoding",
    "x-content-type-options": "nosniff",
}

_STATIC = Path(__file__).parent / "static"
_ASSETS: Mapping[str, str] = {
    "page.css": "text/css",
    "page.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}


@dataclass(frozen=True)
class _Document:
    """A body with its validator; compressed when somebody first asks for it so."""

    body: bytes
    media_type: str

    @cached_property
    def etag(self) -> str:
        return f'"{hashlib.blake2b(self.body, digest_size=12).hexdigest()}"'

    @cached_property
    def compressed(self) -> bytes:
        return compressed(self.body)


def page_routes(facts: Callable[[], Awaitable[FleetFacts]], now: Callable[[], float]) -> list[Route]:
    """Routes for `/` and what belongs to it; `now` is in seconds on a clock that does not go back."""
    assets = {name: _Document((_STATIC / name).read_bytes(), type_) for name, type_ in _ASSETS.items()}
    build = hashlib.blake2b(b"".join(asset.body for asset in assets.values()), digest_size=6).hexdigest()
    viewer = _Viewer(facts, now)

    async def whole(request: Request) -> Response:
        shown = await viewer.facts()
        return _answer(request, _Document(page(shown, build).encode(), "text/html"))

    async def part(request: Request) -> Response:
        return _answer(request, await viewer.view(build))

    def static(asset: _Document) -> Callable[[Request], Coroutine[None, None, Response]]:
        async def answer(request: Request) -> Response:
            return _answer(request, asset)

        return answer

    return [
        Route("/", whole),
        Route("/page/view", part),
        *(Route(f"/page/{name}", static(asset)) for name, asset in assets.items()),
    ]


class _Viewer:
    """The newest facts and their view, made at most once in `FRESH` seconds."""

    def __init__(self, read: Callable[[], Awaitable[FleetFacts]], now: Callable[[], float]) -> None:
        self._read = read
        self._now = now
        self._facts: FleetFacts | None = None
        self._view: _Document | None = None
        self._taken = 0.0

    async def facts(self) -> FleetFacts:
        if self._facts is None or self._now() - self._taken >= FRESH:
            self._facts = await self._read()
            self._view = None
            self._taken = self._now()
        return self._facts

    async def view(self, build: str) -> _Document:
        facts = await self.facts()
        if self._view is None:
            self._view = _Document(view(facts, build).encode(), "text/html")
        return self._view


def _answer(request: Request, document: _Document) -> Response:
    headers = {**_HEADERS, "etag": document.etag, "date": formatdate(usegmt=True)}
    if _holds(request, document.etag):
        return Response(status_code=304, headers=headers)
    body = document.body
    if accepts_gzip(request.headers.get("accept-encoding", "")):
        body = document.compressed
        headers["content-encoding"] = "gzip"
    return Response(body, headers=headers, media_type=document.media_type)


def _holds(request: Request, etag: str) -> bool:
    tags = ",".join(request.headers.getlist("if-none-match")).split(",")
    return etag in {tag.strip().removeprefix("W/") for tag in tags}
