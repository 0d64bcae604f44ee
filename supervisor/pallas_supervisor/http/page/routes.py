"""The page over HTTP: `/`, the view that its script asks for, how to connect, script and style.

Knows Starlette and caching. What is rendered is kept for a moment, so that many viewers cost as much as one.
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from email.utils import formatdate
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.routing import Route

from pallas_common.http.answers import answer, compressed, has_etag
from pallas_supervisor.http.page.view.render import connect_page, page, view

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping

    from starlette.requests import Request

    from pallas_supervisor.http.page.data.facts import DeploymentFacts

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
    """A body with its validator; compressed at the first request for that."""

    body: bytes
    media_type: str

    @cached_property
    def etag(self) -> str:
        return f'"{hashlib.blake2b(self.body, digest_size=12).hexdigest()}"'

    @cached_property
    def compressed(self) -> bytes:
        return compressed(self.body)


def page_routes(facts: Callable[[], Awaitable[DeploymentFacts]], now: Callable[[], float]) -> list[Route]:
    """Routes for `/` and what belongs to it; `now` is in seconds on a clock that does not go back."""
    assets = {name: _Document((_STATIC / name).read_bytes(), type_) for name, type_ in _ASSETS.items()}
    build = hashlib.blake2b(b"".join(asset.body for asset in assets.values()), digest_size=6).hexdigest()
    viewer = _Viewer(facts, now, build)

    async def whole(request: Request) -> Response:
        facts, shown = await viewer.look()
        body = await asyncio.to_thread(page, facts, shown.body.decode(), build)
        return _answer(request, _Document(body.encode(), "text/html"))

    async def part(request: Request) -> Response:
        _, shown = await viewer.look()
        return _answer(request, shown)

    async def connect(request: Request) -> Response:
        facts, _ = await viewer.look()
        body = await asyncio.to_thread(connect_page, facts, build)
        return _answer(request, _Document(body.encode(), "text/html"))

    def static(asset: _Document) -> Callable[[Request], Coroutine[None, None, Response]]:
        async def answer(request: Request) -> Response:
            return _answer(request, asset)

        return answer

    return [
        Route("/", whole),
        Route("/page/view", part),
        Route("/page/connect", connect),
        *(Route(f"/page/{name}", static(asset)) for name, asset in assets.items()),
    ]


class _Viewer:
    """The newest facts and their view, made at most once in `FRESH` seconds, in a thread."""

    def __init__(
        self, read: Callable[[], Awaitable[DeploymentFacts]], now: Callable[[], float], build: str
    ) -> None:
        self._read = read
        self._now = now
        self._build = build
        self._making = asyncio.Lock()
        self._made: tuple[DeploymentFacts, _Document] | None = None
        self._at = 0.0

    async def look(self) -> tuple[DeploymentFacts, _Document]:
        async with self._making:
            if self._made is None or self._now() - self._at >= FRESH:
                facts = await self._read()
                self._made = facts, await asyncio.to_thread(self._render, facts)
                self._at = self._now()
            return self._made

    def _render(self, facts: DeploymentFacts) -> _Document:
        return _Document(view(facts, self._build).encode(), "text/html")


def _answer(request: Request, document: _Document) -> Response:
    headers = {**_HEADERS, "etag": document.etag, "date": formatdate(usegmt=True)}
    if has_etag(request, document.etag):
        return Response(status_code=304, headers=headers)
    return answer(request, document.body, headers, document.media_type, lambda _: document.compressed)
