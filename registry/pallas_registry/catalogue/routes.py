"""The catalogue over HTTP: discovery document and sub-registry, with validators for caches.

Knows Starlette and conditional requests (RFC 9110, section 13); must not know where the view comes
from.
"""

from __future__ import annotations

import datetime as dt
from email.utils import format_datetime, parsedate_to_datetime
from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.routing import Route

from pallas_common.http.answers import has_etag
from pallas_registry.catalogue.entries import encoded
from pallas_registry.catalogue.pages import QueryError, one_version, page, parse_query, versions_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from pallas_registry.catalogue.entries import CatalogueView

_SECOND = dt.timedelta(seconds=1)
_PUBLIC = {
    "access-control-allow-origin": "*",
    "access-control-allow-methods": "GET, HEAD, OPTIONS",
    "access-control-allow-headers": "*",
    "access-control-expose-headers": "ETag, Last-Modified",
    "cache-control": "no-cache",
}


def _wall_clock() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def catalogue_routes(
    get: Callable[[], CatalogueView], now: Callable[[], dt.datetime] = _wall_clock
) -> list[Route]:
    """Routes for `/.well-known/mcp/server.json` and the sub-registry below `/v0.1/servers`.

    `get` is asked for the newest view at each request, `now` for the time. Answers are JSON, public to every
    page that may ask (see `hosts`) and revalidated by caches; errors are `{"error": "one line"}`. The view's ETag
    serves all of them: each is a function of the view and its own URL.
    """

    async def discovery(request: Request) -> Response:
        view = get()
        return _answer(request, view, lambda: view.body, now())

    async def servers(request: Request) -> Response:
        try:
            query = parse_query(request.query_params)
        except QueryError as error:
            return _error(400, str(error))
        view = get()
        return _answer(request, view, lambda: encoded(page(view, query)), now())

    async def versions(request: Request) -> Response:
        name = request.path_params["name"]
        view = get()
        if (found := versions_of(view, name)) is None:
            return _no_server(name)
        return _answer(request, view, lambda: encoded(found), now())

    async def version(request: Request) -> Response:
        name, wanted = request.path_params["name"], request.path_params["version"]
        view = get()
        if (found := one_version(view, name, wanted)) is not None:
            return _answer(request, view, lambda: encoded(found), now())
        if versions_of(view, name) is None:
            return _no_server(name)
        return _error(404, f"{name!r} has no version {wanted!r}; `latest` is its newest")

    endpoints = {
        "/.well-known/mcp/server.json": discovery,
        "/v0.1/servers": servers,
        "/v0.1/servers/{name:path}/versions": versions,
        "/v0.1/servers/{name:path}/versions/{version}": version,
    }
    return [
        *(Route(path, endpoint, methods=["GET", "HEAD"]) for path, endpoint in endpoints.items()),
        *(Route(path, _preflight, methods=["OPTIONS"]) for path in endpoints),
    ]


async def _preflight(_request: Request) -> Response:
    """What a browser asks before it sends a validator to another origin."""
    return Response(status_code=204, headers=_PUBLIC)


def _answer(request: Request, view: CatalogueView, body: Callable[[], bytes], now: dt.datetime) -> Response:
    """The whole answer, or 304 if the client has it already; `body` is made only when it is sent."""
    headers = {**_PUBLIC, "etag": view.etag, "last-modified": _last_modified(view, now)}
    if _has_current(request, view):
        return Response(status_code=304, headers=headers)
    return Response(body(), media_type="application/json", headers=headers)


def _has_current(request: Request, view: CatalogueView) -> bool:
    """Whether the client's validators say that it holds this very view (RFC 9110, 13.1.2 and 13.1.3)."""
    if (held := has_etag(request, view.etag)) is not None:
        return held
    since = request.headers.get("if-modified-since")
    if since is None:
        return False
    try:
        moment = parsedate_to_datetime(since)
    except (ValueError, OverflowError):
        return False
    return moment.tzinfo is not None and moment >= _first_safe_second(view)


def _last_modified(view: CatalogueView, now: dt.datetime) -> str:
    """The date of the last change, never in the future, as an HTTP date.

    Dates count whole seconds. A client may keep only a date from after the second of the change: within that
    second the list may change again. Until it is over, the date given is one that will not match.
    """
    safe = _first_safe_second(view)
    return format_datetime(safe if safe <= now else safe - _SECOND, usegmt=True)


def _first_safe_second(view: CatalogueView) -> dt.datetime:
    return view.changed_at.astimezone(dt.UTC).replace(microsecond=0) + _SECOND


def _no_server(name: str) -> Response:
    return _error(404, f"there is no server {name[:200]!r} here; GET /v0.1/servers lists them")


def _error(status: int, message: str) -> Response:
    return Response(encoded({"error": message}), status, headers=_PUBLIC, media_type="application/json")
