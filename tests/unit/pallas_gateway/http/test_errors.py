"""Refusals as a client of MCP shows them: the SDK's own, in both eras, over a real socket."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING

import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from pallas_common.http.connections import Connections
from pallas_common.http.server import HttpServer
from pallas_common.protocol.gateway import GatewaySettings
from pallas_common.secrets.tokens import new_token
from pallas_gateway.access.limits import Limiter
from pallas_gateway.http.app import GatewayApp
from pallas_gateway.http.places import NoSuchPlaceError, Place
from pallas_gateway.identity.grants import Permission
from pallas_gateway.identity.in_flight import InFlight
from pallas_gateway.identity.principals import Principals
from pallas_gateway.mcp.surface import InsufficientScopeError
from support.clients import ERAS
from support.gateway.mcp.toy import Toy
from support.gateway.tokens import TokensInMemory, WorkersInMemory

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from pallas_gateway.identity.principal import Principal
    from pallas_gateway.mcp.surface import Surface
    from support.clients import Era


class Port:
    """The application on a port of its own, with a toy behind `/mcp`."""

    def __init__(self) -> None:
        self.stored = TokensInMemory()
        self.toy = Toy()
        in_flight = InFlight()
        settings = GatewaySettings(bind="127.0.0.1", public_url="http://localhost")
        self.app = GatewayApp(
            settings,
            Principals(self.stored, WorkersInMemory(), in_flight),
            Limiter(settings.limits),
            in_flight,
            endpoint=self.toy.endpoint,
            surfaces=self,
            health=lambda: "ok",
        )
        self.url = ""

    def at(self, place: Place, principal: Principal) -> Surface:
        if place.name == "hidden":
            raise NoSuchPlaceError("there is no agent hidden, or this token may not run it")
        if place.name == "barred":
            raise InsufficientScopeError(Permission("run", "agents", place.name))
        return self.toy.surface

    @contextlib.asynccontextmanager
    async def connect(self, path: str, token: str | None, era: Era) -> AsyncIterator[Client]:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        async with (
            httpx2.AsyncClient(headers=headers) as http,
            Client(streamable_http_client(self.url + path, http_client=http), mode=era) as client,
        ):
            yield client


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[Port]:
    port = Port()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        server = HttpServer(port.app, listener, Connections("test", 100))
        server.start()
        port.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        try:
            yield port
        finally:
            port.toy.endpoint.drain()
            await server.drain(5.0)


def leaves(error: BaseException) -> Iterator[MCPError]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from leaves(each)
    elif isinstance(error, MCPError):
        yield error


@pytest.mark.parametrize("era", ERAS)
def test_a_client_shows_why_it_is_refused(era: Era) -> None:
    async def act() -> None:
        async with serving() as port:
            good, strange = port.stored.make("tok_1"), new_token("human")
            for path, token, code, message in (
                ("/mcp", None, -32956, "a bearer token is needed: send `Authorization: Bearer <token>`"),
                ("/mcp", strange, -32956, "nobody has this token: it is unknown, or was revoked"),
                ("/mcp/agents/barred", good, -32957, "run:agents:barred"),
                (
                    "/mcp/agents/hidden",
                    good,
                    -32953,
                    "there is no agent hidden, or this token may not run it",
                ),
                ("/mcp/other", good, -32953, "servers of MCP are at /mcp"),
            ):
                with pytest.RaisesGroup(MCPError, flatten_subgroups=True) as raised:
                    async with port.connect(path, token, era):
                        pass
                error = next(leaves(raised.value))
                assert error.code == code
                assert message in str(error)
                assert strange not in str(error)

    asyncio.run(act())


@pytest.mark.parametrize("era", ERAS)
def test_a_client_shows_why_a_call_is_refused(era: Era) -> None:
    async def act() -> None:
        async with serving() as port, port.connect("/mcp", port.stored.make("tok_1"), era) as client:
            with pytest.raises(MCPError, match="run:agents:jarvis") as raised:
                await client.call_tool("scope", {})
            assert raised.value.code == -32957

    asyncio.run(act())


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("path", ["/mcp/", "/mcp/agents/jarvis/", "/mcp/projects/p/"])
def test_a_slash_at_the_end_changes_nothing(path: str, era: Era) -> None:
    async def act() -> None:
        async with serving() as port, port.connect(path, port.stored.make("tok_1"), era) as client:
            assert (await client.list_tools()).tools[0].name == "echo"

    asyncio.run(act())
