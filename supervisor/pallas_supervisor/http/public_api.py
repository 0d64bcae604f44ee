"""The registry port: status page, catalogue, merged metrics, health. Read-only, and open to all that reach it.

Knows Starlette and what there is to show; changes nothing.
"""

from __future__ import annotations

import asyncio
from functools import lru_cache
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from pallas_common.http.answers import answer
from pallas_common.http.hosts import HostGuard, Hosts, served_hosts
from pallas_registry.catalogue.routes import catalogue_routes
from pallas_supervisor.http.page.routes import page_routes

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.types import ASGIApp

    from pallas_supervisor.agents.status import StatusView
    from pallas_supervisor.http.catalogue_feed import CatalogueFeed
    from pallas_supervisor.http.page.data.feed import Feed
    from pallas_supervisor.telemetry.exporter import Metrics


def public_api(
    status: StatusView,
    metrics: Metrics,
    catalogue: CatalogueFeed,
    feed: Feed,
    now: Callable[[], float],
) -> ASGIApp:
    """The application of the registry port; requests by another name, or from another site's page, are refused.

    `now` is in seconds on the engine's clock.
    """
    api = _PublicApi(status, metrics, feed.reading)
    application = Starlette(
        routes=[
            *page_routes(feed.facts, now),
            *catalogue_routes(catalogue.view),
            Route("/metrics", api.metrics),
            Route("/health", api.health),
            Route("/livez", api.livez),
            Route("/readyz", api.readyz),
        ]
    )

    def hosts() -> Hosts:
        deployment = status.deployment  # as it was last loaded
        return _hosts(deployment.host, deployment.hosts, deployment.bind)

    return HostGuard(application, hosts)


@lru_cache(maxsize=1)
def _hosts(host: str, hosts: tuple[str, ...], bind: str) -> Hosts:
    return Hosts(served_hosts(host, hosts, bind))


class _PublicApi:
    def __init__(self, status: StatusView, metrics: Metrics, scraping: asyncio.Lock) -> None:
        self._status = status
        self._metrics = metrics
        self._scraping = scraping

    async def metrics(self, request: Request) -> Response:
        async with self._scraping:
            return await asyncio.to_thread(self._scrape, request)

    def _scrape(self, request: Request) -> Response:
        body, content_type = self._metrics.render(request.headers.get("accept", ""))
        return answer(request, body, {"content-type": content_type, "vary": "Accept, Accept-Encoding"})

    async def health(self, _request: Request) -> Response:
        document = self._status.health_document()
        return JSONResponse(document, 503 if document["status"] == "error" else 200)

    async def livez(self, _request: Request) -> Response:
        return PlainTextResponse("ok")

    async def readyz(self, _request: Request) -> Response:
        if self._status.is_ready:
            return PlainTextResponse("ok")
        return PlainTextResponse(self._status.summary(), 503)
