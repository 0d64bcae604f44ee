"""The gateway's port with pages of a test's own, tokens and sessions in memory, and a browser."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import httpx
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pallas_common.protocol.gateway import GatewaySettings, Limits
from pallas_gateway.access.audit import Audit
from pallas_gateway.access.limits import Limiter
from pallas_gateway.http.app import GatewayApp
from pallas_gateway.http.pages.forms import read_form
from pallas_gateway.http.pages.gate import Gate
from pallas_gateway.http.pages.login import Login, is_secure
from pallas_gateway.http.pages.requests import admitted_of, check_csrf, csrf_of, has_session
from pallas_gateway.identity.in_flight import InFlight
from pallas_gateway.identity.principals import Principals
from pallas_gateway.identity.sessions import Sessions
from support.gateway.tokens import SessionsInMemory, TokensInMemory, WorkersInMemory

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from starlette.requests import Request

HTML = {"accept": "text/html,application/xhtml+xml"}


class House:
    """The port with pages of the test's own, and a browser."""

    def __init__(
        self, directory: Path, url: str = "http://pallas.test", auth: Any = "token", **limits: Any
    ) -> None:
        settings = GatewaySettings(
            bind="127.0.0.1", public_url=url, auth=auth, limits=Limits(concurrent=2, **limits)
        )
        self.tokens, self.workers, in_flight = TokensInMemory(), WorkersInMemory(), InFlight()
        self.principals = Principals(self.tokens, self.workers, in_flight, anybody=auth == "none")
        self.stored = SessionsInMemory(self.tokens)
        self.sessions = Sessions(self.stored, self.principals, in_flight)
        self.audit = Audit(str(directory), content=False)
        limiter = Limiter(settings.limits)
        login = Login(settings, self.sessions, limiter, self.audit)
        self.waits, self.goes_on = 0, asyncio.Event()
        self.changed = asyncio.Condition()
        gate = Gate(
            self.sessions,
            [
                Route("/chat", self.page),
                Route("/chat/form", self.form, methods=["POST"]),
                Route("/chat/turn", self.turn, methods=["DELETE", "POST"]),
                Route("/chat/wait", self.wait),
                Route("/chat/careless", self.page, methods=["POST"]),
                *login.routes(),
            ],
            login.open_routes(),
            anybody=auth == "none",
            secure=is_secure(settings),
            authority="public.test",
        )
        app = GatewayApp(
            settings,
            self.principals,
            limiter,
            in_flight,
            endpoint=None,  # type: ignore[arg-type]
            surfaces=None,  # type: ignore[arg-type]
            health=lambda: "ok",
            pages=gate,
        )
        self.browser = httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url=url, follow_redirects=False
        )

    async def page(self, request: Request) -> Response:
        return JSONResponse(
            {
                "id": admitted_of(request).principal.id,
                "csrf": csrf_of(request),
                "has_session": has_session(request),
                "cookie": request.headers.get("cookie"),
            }
        )

    async def form(self, request: Request) -> Response:
        form = await read_form(request, 4096)
        return JSONResponse({name: str(value) for name, value in form.items()})

    async def turn(self, request: Request) -> Response:
        check_csrf(request)
        return Response(status_code=204)

    async def wait(self, request: Request) -> Response:
        async with self.changed:
            self.waits += 1
            self.changed.notify_all()
        await self.goes_on.wait()
        return Response("done")

    async def until_waiting(self, number: int) -> None:
        """Return once so many requests wait."""
        async with self.changed:
            await self.changed.wait_for(lambda: self.waits == number)

    async def log_in(self, token: str, **fields: str) -> httpx.Response:
        return await self.browser.post("/chat/login", data={"token": token, **fields}, headers=HTML)

    async def csrf(self) -> str:
        said: str = (await self.browser.get("/chat")).json()["csrf"]
        return said

    def audited(self) -> list[dict[str, Any]]:
        lines = self.audit.path.read_text().splitlines() if self.audit.path.exists() else []
        return [json.loads(line) for line in lines]


def run(directory: Path, test: Callable[[House], Awaitable[None]], **options: Any) -> None:
    async def whole() -> None:
        house = House(directory, **options)
        async with house.browser:
            await test(house)
        house.audit.close()

    asyncio.run(whole())
