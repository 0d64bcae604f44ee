"""The supervisor's HTTP server lets go of its listening socket, and of no connection that it has accepted."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from pallas_supervisor.http_server import HttpServer

if TYPE_CHECKING:
    from starlette.requests import Request

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def hello(_: Request) -> Response:
    return PlainTextResponse("hello")


async def accepting(server: HttpServer) -> None:
    """Wait until it accepts."""
    while not server._server.started:  # noqa: ASYNC110 - nothing tells
        await asyncio.sleep(0)


@pytest.mark.parametrize("turns", range(8))
def test_a_close_at_any_turn_of_the_loop_resets_nobody(turns: int) -> None:
    application = Starlette(routes=[Route("/", hello)])

    async def run(listener: socket.socket) -> bytes:
        first = HttpServer(application, listener.dup())
        await accepting(first)
        with socket.create_connection(listener.getsockname()) as client:
            client.sendall(REQUEST)
            client.setblocking(False)
            for _ in range(turns):
                await asyncio.sleep(0)
            await first.close()
            second = HttpServer(application, listener.dup())  # which has what is left in the backlog
            await accepting(second)
            answer = await asyncio.get_running_loop().sock_recv(client, 65536)
            await second.close()
        return answer

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        assert asyncio.run(asyncio.wait_for(run(listener), 60)).startswith(b"HTTP/1.1 200 OK")
