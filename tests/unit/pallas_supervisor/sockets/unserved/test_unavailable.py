"""The 503 of agents that are unavailable: with Retry-After and why, whatever clients send, only while it is on."""

# ruff: noqa: ASYNC110 - what is waited for is inside, and tells nobody
from __future__ import annotations

import asyncio
import errno
import json
import socket
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from pallas_common.http.connections import Connections
from pallas_supervisor.sockets.unserved import unavailable as module
from pallas_supervisor.sockets.unserved.unavailable import Unavailable, UnavailableResponder, render
from support.supervisor.processes import PATIENCE, nothing_leaked

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

WHY = Unavailable("agent research is backoff: killed by SIGKILL; restarting in 2 s, failure 2/5", 2)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that stands still is no client that says nothing, and ends no pause."""
    monkeypatch.setattr(module, "REQUEST_TIMEOUT", PATIENCE)
    monkeypatch.setattr(module, "ACCEPT_RETRY", PATIENCE)


class Bench:
    def __init__(self, listener: socket.socket) -> None:
        self.listener = listener
        self.connections = Connections("tests", 200, grace=0.0)
        self.responder = UnavailableResponder(listener, lambda: WHY, self.connections)
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(*self.listener.getsockname())


def on_bench(do: Callable[[Bench], Awaitable[None]]) -> None:
    async def run() -> None:
        await asyncio.sleep(0)
        with nothing_leaked(), socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)
            bench = Bench(listener)
            async with asyncio.timeout(PATIENCE):
                await do(bench)
                bench.responder.close()
                while bench.responder._answering:
                    await asyncio.sleep(0)
                await asyncio.sleep(0)

    asyncio.run(run())


def is_the_answer(response: httpx.Response) -> None:
    assert response.status_code == 503
    assert response.headers["retry-after"] == "2"
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert body["jsonrpc"] == "2.0"
    assert body["error"]["message"] == WHY.message
    assert body["error"]["data"] == {"retry_after": 2}


@pytest.mark.parametrize("size", [0, 10, 100_000, 8_000_000])
def test_a_client_gets_the_answer_however_much_it_sends(size: int) -> None:
    async def do(bench: Bench) -> None:
        bench.responder.switch(on=True)
        async with httpx.AsyncClient(timeout=PATIENCE) as client:
            for _ in range(3):
                is_the_answer(await client.post(bench.url, content=b"x" * size))
            is_the_answer(await client.get(bench.url))

    on_bench(do)


def test_many_clients_at_once() -> None:
    async def do(bench: Bench) -> None:
        bench.responder.switch(on=True)
        async with httpx.AsyncClient(timeout=PATIENCE, limits=httpx.Limits(max_connections=None)) as client:
            for response in await asyncio.gather(*(client.post(bench.url, json={}) for _ in range(100))):
                is_the_answer(response)

    on_bench(do)


def test_while_it_is_off_connections_wait_and_are_then_answered() -> None:
    async def do(bench: Bench) -> None:
        reader, writer = await bench.connect()
        writer.write(b"GET /mcp HTTP/1.1\r\n\r\n")
        await asyncio.sleep(0)
        assert not bench.responder._answering
        bench.responder.switch(on=True)
        bench.responder.switch(on=True)
        assert (await reader.readline()) == b"HTTP/1.1 503 Service Unavailable\r\n"
        writer.close()
        bench.responder.switch(on=False)
        bench.responder.switch(on=False)
        _, waiting = await bench.connect()
        connection, _ = await asyncio.get_running_loop().sock_accept(bench.listener)
        connection.close()
        waiting.close()

    on_bench(do)


def test_an_answer_under_way_is_finished_after_the_switch() -> None:
    async def do(bench: Bench) -> None:
        bench.responder.switch(on=True)
        reader, writer = await bench.connect()
        while not bench.responder._answering:
            await asyncio.sleep(0)
        bench.responder.switch(on=False)
        writer.write(b"POST /mcp HTTP/1.1\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 503")
        writer.close()

    on_bench(do)


@pytest.mark.parametrize(
    "head", [b"", b"GET /mcp", b"\x00\x01\x02" * 100, b"x" * (module.MAX_HEAD + 100_000)]
)
def test_a_client_that_says_nothing_sensible_takes_nobody_down(head: bytes) -> None:
    async def do(bench: Bench) -> None:
        bench.responder.switch(on=True)
        reader, writer = await bench.connect()
        writer.write(head)
        writer.write_eof()
        await reader.read()
        writer.close()
        async with httpx.AsyncClient(timeout=PATIENCE) as client:
            is_the_answer(await client.get(bench.url))

    on_bench(do)


def test_a_client_that_says_nothing_at_all_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REQUEST_TIMEOUT", 0.01)

    async def do(bench: Bench) -> None:
        bench.responder.switch(on=True)
        reader, writer = await bench.connect()
        assert await reader.read() == b""
        writer.close()

    on_bench(do)


def test_many_that_say_nothing_keep_nobody_from_the_answer() -> None:
    async def do(bench: Bench) -> None:
        bench.connections.limit = 2
        bench.responder.switch(on=True)
        silent = [await bench.connect() for _ in range(300)]
        async with httpx.AsyncClient(timeout=PATIENCE) as client:
            for _ in range(3):
                is_the_answer(await client.get(bench.url))
        assert len(bench.connections) <= 2
        for reader, _ in silent[:298]:
            assert await reader.read() == b"", "the oldest go first"
        for _, writer in silent:
            writer.close()

    on_bench(do)


def test_in_a_crowd_everybody_has_a_moment() -> None:
    async def do(bench: Bench) -> None:
        bench.connections.limit = 1
        bench.connections._grace = PATIENCE
        bench.responder.switch(on=True)
        first, second = await bench.connect(), await bench.connect()
        while bench.responder._resumption is None:
            await asyncio.sleep(0)
        second[1].write(b"GET / HTTP/1.1\r\n\r\n")
        first[1].write(b"GET / HTTP/1.1\r\n\r\n")
        assert (await first[0].readline()).startswith(b"HTTP/1.1 503")
        first[1].close()
        while bench.connections:
            await asyncio.sleep(0)
        bench.responder._resumption.cancel()
        bench.responder._resume()
        assert (await second[0].readline()).startswith(b"HTTP/1.1 503")
        second[1].close()

    on_bench(do)


def test_its_close_ends_the_connections_that_it_has() -> None:
    async def do(bench: Bench) -> None:
        bench.responder.switch(on=True)
        silent = [await bench.connect() for _ in range(3)]
        while len(bench.responder._answering) < 3:
            await asyncio.sleep(0)
        bench.responder.close()  # long before their time is over
        for reader, writer in silent:
            assert await reader.read() == b""
            writer.close()

    on_bench(do)


def test_a_connection_that_it_has_just_accepted_is_closed_with_it() -> None:
    async def do(bench: Bench) -> None:
        reader, writer = await bench.connect()
        bench.responder._accept()
        bench.responder.close()
        assert await reader.read() == b""
        writer.close()

    on_bench(do)


class Exhausted:
    """A listening socket on which no descriptor is left, so many times."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self.left = 1
        self.asked = 0

    def accept(self) -> tuple[socket.socket, Any]:
        self.asked += 1
        if self.left:
            self.left -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return self._listener.accept()

    def fileno(self) -> int:
        return self._listener.fileno()


def test_without_descriptors_it_pauses_and_does_not_spin() -> None:
    async def do(bench: Bench) -> None:
        exhausted = Exhausted(bench.listener)
        responder = bench.responder = UnavailableResponder(
            exhausted,  # type: ignore[arg-type]  # has what is used of a socket
            lambda: WHY,
            bench.connections,
        )
        responder.switch(on=True)
        reader, writer = await bench.connect()
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        while not exhausted.asked:
            await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        assert exhausted.asked == 1
        pause = responder._resumption
        assert pause is not None
        responder._resume()
        pause.cancel()
        assert (await reader.readline()).startswith(b"HTTP/1.1 503")
        writer.close()

    on_bench(do)


def test_a_pause_ends_with_the_switch() -> None:
    async def do(bench: Bench) -> None:
        exhausted = Exhausted(bench.listener)
        responder = bench.responder = UnavailableResponder(
            exhausted,  # type: ignore[arg-type]  # has what is used of a socket
            lambda: WHY,
            bench.connections,
        )
        responder.switch(on=True)
        _, writer = await bench.connect()
        while responder._resumption is None:
            await asyncio.sleep(0)
        pause = responder._resumption
        responder.switch(on=False)
        assert pause.cancelled()
        writer.close()

    on_bench(do)


def test_the_whole_response() -> None:
    head, body = render(WHY).split(b"\r\n\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    assert b"Connection: close" in head
    assert json.loads(body)["error"]["code"] == -32000
