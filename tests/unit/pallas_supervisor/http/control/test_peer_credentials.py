"""Who is at the other end of a unix socket, over a real one and through a real server."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import httpx
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from pallas_common.http.connections import Connections
from pallas_common.http.server import HttpServer
from pallas_supervisor.http.control.peer_credentials import Peer, PeerProtocol, guarded, peer_of, standing_of

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.requests import Request

    from pallas_supervisor.http.control.peer_credentials import Standing

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


def connected(path: Path, then: str) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """A process that has connected to us, and does something then."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        command = [sys.executable, "-c", f"import socket, sys; s = socket.socket(socket.AF_UNIX); {then}"]
        process = subprocess.Popen([*command, str(path)], stdin=subprocess.PIPE)
        connection, _ = listener.accept()
    return process, connection


def test_a_process_stands_as_it_is_said_to(tmp_path: Path) -> None:
    process, connection = connected(tmp_path / "socket", "s.connect(sys.argv[1]); sys.stdin.read()")
    with process, connection:
        peer = peer_of(connection)
        assert peer is not None
        assert peer.pid == process.pid
        assert standing_of(connection, peer, lambda _: "outside") == "outside"
        assert standing_of(connection, peer, lambda _: "gateway") == "gateway"
        process.communicate(b"")


def test_of_one_that_has_ended_nothing_good_is_known(tmp_path: Path) -> None:
    process, connection = connected(tmp_path / "socket", "s.connect(sys.argv[1])")
    with connection:
        process.communicate()
        peer = peer_of(connection)
        assert peer is not None
        assert standing_of(connection, peer, lambda _: "outside") == "inside", (
            "its number may be another's now, and its connection with whom it gave it to"
        )


def test_who_cannot_be_looked_at_is_refused() -> None:
    def blind(_peer: Peer) -> Standing:
        raise OSError(errno.EMFILE, "none left")

    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert standing_of(ours, US, blind) == "inside"
        assert standing_of(ours, Peer(0, 0, 0), blind) == "outside", "of another namespace"


def test_each_connection_is_looked_at_once() -> None:
    asked: list[Peer] = []

    def standing(peer: Peer) -> Standing:
        asked.append(peer)
        return "gateway"

    assert guarded(standing).standing(US) == "gateway"
    assert asked == [US]
