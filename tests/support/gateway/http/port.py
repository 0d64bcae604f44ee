"""The gateway's port with routes of a test's choice, on a real socket, before a mirror and tokens in memory."""

from __future__ import annotations

import contextlib
import json
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx

from pallas_common.http.connections import STALL_TIMEOUT, Connections
from pallas_common.http.server import HttpServer
from pallas_common.protocol.gateway import GatewaySettings, Limits
from pallas_gateway.access.audit import FILE, Audit
from pallas_gateway.access.limits import Limiter
from pallas_gateway.http.app import GatewayApp
from pallas_gateway.http.places import NoSuchPlaceError
from pallas_gateway.identity.in_flight import InFlight
from pallas_gateway.identity.principals import Principals
from support.gateway.tokens import TokensInMemory, WorkersInMemory

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from starlette.routing import BaseRoute
    from starlette.types import Receive, Scope, Send

    from pallas_gateway.http.places import Place
    from pallas_gateway.identity.principal import Principal
    from pallas_gateway.mcp.admitted import Admitted
    from pallas_gateway.mcp.surface import Surface


class NoSurfaces:
    """No servers of MCP."""

    def at(self, place: Place, principal: Principal) -> Surface:
        raise NoSuchPlaceError


async def _endpoint(scope: Scope, receive: Receive, send: Send, admitted: Admitted, surface: Surface) -> None:
    raise AssertionError("there are no surfaces")


class Shared(NamedTuple):
    """What routes have in common with the port."""

    audit: Audit
    limiter: Limiter
    in_flight: InFlight


@dataclass
class GatewayPort:
    """The port as callers meet it."""

    url: str
    tokens: TokensInMemory
    audit: Path
    client: httpx.AsyncClient
    in_flight: InFlight
    server: HttpServer

    def token(self, name: str, *grants: str, agent: str | None = None) -> str:
        """A new token with these grants."""
        return self.tokens.make(name, *grants, agent=agent)

    def request(self, method: str, path: str, token: str | None = None, **options: Any) -> httpx.Request:
        """A request with that token."""
        headers = {**options.pop("headers", {})}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        return self.client.build_request(method, self.url + path, headers=headers, **options)

    async def ask(self, method: str, path: str, token: str | None = None, **options: Any) -> httpx.Response:
        """The whole answer."""
        return await self.client.send(self.request(method, path, token, **options))

    async def drained(self) -> None:
        """Wait until no request is under way; no other one is taken from then on."""
        await self.server.drain(10.0)

    def audited(self) -> list[str]:
        """The lines of the audit: who did what to what, and how that ended; without those of what begins."""
        lines = map(json.loads, self.audit.read_text().splitlines())
        return [
            f"{each['principal']} {each['action']} {each['target']} {each['outcome']}"
            for each in lines
            if each["outcome"] != "begun"
        ]


@contextlib.asynccontextmanager
async def gateway_port(
    directory: Path,
    routes: Callable[[Shared], Sequence[BaseRoute]],
    *,
    stall_timeout: float = STALL_TIMEOUT,
    content: bool = False,
    max_request_bytes: int = 1_000_000,
    **limits: Any,
) -> AsyncIterator[GatewayPort]:
    """The port until the block ends; the audit is in `directory`."""
    tokens, in_flight = TokensInMemory(), InFlight()
    audit = Audit(directory, content=content)
    settings = GatewaySettings(
        bind="127.0.0.1",
        public_url="http://gateway",
        limits=Limits(**limits),
        max_request_bytes=max_request_bytes,
    )
    limiter = Limiter(settings.limits)
    app = GatewayApp(
        settings,
        Principals(tokens, WorkersInMemory(), in_flight),
        limiter,
        in_flight,
        endpoint=_endpoint,
        surfaces=NoSurfaces(),
        health=lambda: "ok",
        routes=routes(Shared(audit, limiter, in_flight)),
    )
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
        server = HttpServer(app, listener, Connections("port", 1000, stall_timeout=stall_timeout))
        server.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        try:
            async with httpx.AsyncClient(trust_env=False, timeout=60.0) as client:
                yield GatewayPort(url, tokens, directory / FILE, client, in_flight, server)
        finally:
            await server.drain(5.0)
            audit.close()
