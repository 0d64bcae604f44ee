"""Who is at the other end of a unix socket, over a real one and through a real server."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import TYPE_CHECKING

import httpx
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from pallas_common.http.connections import Connections
from pallas_common.http.server import HttpServer
from pallas_supervisor.http.control.peer_credentials import Peer, PeerProtocol, peer_of

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.requests import Request

US = Peer(os.getpid(), os.getuid(), os.getgid())


def test_the_kernel_tells() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert peer_of(ours) == US
    with socket.socket(socket.AF_INET) as other:
        assert peer_of(other) is None


def test_people_read_a_name() -> None:
    assert str(Peer(42, 0, 0)) == "root (uid 0, pid 42)"
    assert str(Peer(42, 4_000_000, 0)) == "somebody (uid 4000000, pid 42)"


def test_a_request_knows_its_peer(tmp_path: Path) -> None:
    async def who(request: Request) -> PlainTextResponse:
        return PlainTextResponse(str(request.state.peer))

    async def run() -> None:
        path = tmp_path / "socket"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen()
            listener.setblocking(False)
            app = Starlette(routes=[Route("/", who)])
            server = HttpServer(app, listener, Connections("tests", 10), protocol=PeerProtocol)
            server.start()
            async with httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=str(path))) as client:
                assert (await client.get("http://pallas/")).text == str(US)
            await server.drain(60)

    asyncio.run(run())
