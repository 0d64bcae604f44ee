"""The probe of a worker's port, which says whether it answers MCP requests."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import pytest

from pallas_supervisor.sockets import mcp_probe
from pallas_supervisor.sockets.mcp_probe import HEALTH, initialize, probe, until_answered
from support.ports import free_ports
from support.supervisor.processes import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path


def with_server(handle: Callable[[bytes], bytes], do: Callable[[int], Awaitable[None]]) -> list[bytes]:
    """Run `do(port)` against a server that answers each request's head and body with `handle`'s bytes."""
    requests: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split()[0]) if b"ontent-" in head else 0
        requests.append(head + await reader.readexactly(length))
        writer.write(handle(requests[-1]))
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with asyncio.timeout(PATIENCE), server:
            await do(server.sockets[0].getsockname()[1])

    asyncio.run(run())
    return requests


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", None),
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", "answered 'HTTP/1.1 503 Service Unavailable'"),
        (b"HTTP/1.1 421 Misdirected Request\r\n\r\n", "answered 'HTTP/1.1 421 Misdirected Request'"),
        (b"200\r\n", "answered '200'"),
        (b"", "answered ''"),
    ],
)
def test_a_probe_wants_200(answer: bytes, verdict: str | None) -> None:
    async def do(port: int) -> None:
        assert await probe(("127.0.0.1", port), initialize("its-key")) == verdict

    (request,) = with_server(lambda _: answer, do)
    assert request.startswith(b"POST /mcp HTTP/1.1\r\n")
    assert b"\r\nPallas-Key: its-key\r\n" in request
    assert b'"method": "initialize"' in request


@pytest.mark.parametrize(
    ("status", "verdict"), [(200, None), (503, None), (404, "answered 'HTTP/1.1 404 X'")]
)
def test_the_gateway_answers_however_it_is_with_it(status: int, verdict: str | None) -> None:
    async def do(port: int) -> None:
        assert await probe(("127.0.0.1", port), HEALTH) == verdict

    (request,) = with_server(lambda _: f"HTTP/1.1 {status} X\r\n\r\n".encode(), do)
    assert request.startswith(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1:")


def test_a_probe_of_a_unix_socket(tmp_path: Path) -> None:
    path = str(tmp_path / "agent.sock")
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        writer.close()

    async def run() -> None:
        async with await asyncio.start_unix_server(serve, path):
            assert await probe(path, initialize()) is None

    asyncio.run(run())
    assert b"\r\nHost: localhost\r\n" in heads[0]
    assert "No such file" in str(asyncio.run(probe(path, initialize()))), "nobody listens there any more"


def test_a_probe_of_a_port_that_nobody_serves() -> None:
    assert "Connect call failed" in str(asyncio.run(probe(("127.0.0.1", free_ports(1)[0]), initialize())))


def test_a_probe_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_probe, "PROBE_TIMEOUT", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert (
            asyncio.run(probe(("127.0.0.1", silent.getsockname()[1]), initialize()))
            == "no answer within 0.01 s"
        )


def test_it_is_probed_until_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_probe, "PROBE_INTERVAL", 0.0)
    answers = iter([b"HTTP/1.1 503 No\r\n\r\n", b"", b"HTTP/1.1 200 OK\r\n\r\n"])

    async def do(port: int) -> None:
        await until_answered(("127.0.0.1", port), initialize())

    assert len(with_server(lambda _: next(answers), do)) == 3
