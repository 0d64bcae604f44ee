"""Where a URL may lead, and that the loop holds every library to it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING, Any

import aiohttp
import anyio
import httpx
import httpx2
import pytest
import websockets

from pallas_common.http import reach
from pallas_common.http.reach import (
    ForbiddenAddressError,
    closed,
    may_reach,
    names_this_machine,
    reachable,
)
from pallas_common.protocol.link.process import loop_factory

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

NEAR = (
    *("127.0.0.1", "127.8.9.1", "0.0.0.0", "0.1.2.3", "169.254.169.254", "169.254.1.1", "100.100.100.200"),
    *("168.63.129.16", "192.0.0.192", "224.0.0.1", "240.0.0.1", "255.255.255.255"),
    *("::1", "::", "fe80::1", "fe80::1%lo", "ff02::1", "fd00:ec2::254", "fd20:ce::254"),
    *("::ffff:127.0.0.1", "::ffff:a9fe:a9fe", "::127.0.0.1", "::ffff:0:127.0.0.1"),
    *("64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::7f00:1", "2002:7f00:1::", "2002:a9fe:a9fe::1"),
)
"""Numeric, and such as no URL may lead to."""
FAR = ("8.8.8.8", "10.1.2.3", "192.168.1.1", "172.20.0.1", "2606:4700::1111", "64:ff9b::808:808", "fd12::1")


@pytest.mark.parametrize("address", NEAR)
def test_no_url_leads_to_these(address: str) -> None:
    assert not may_reach(address)
    assert names_this_machine(address)


@pytest.mark.parametrize("address", FAR)
def test_a_url_may_lead_to_these(address: str) -> None:
    assert may_reach(address)
    assert not names_this_machine(address)


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST.", "a.b.localhost", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0"],
)
def test_other_ways_to_write_loopback_are_known(host: str) -> None:
    assert names_this_machine(host)


def test_what_is_no_address_is_not_reached() -> None:
    assert not may_reach("example.com")
    assert not names_this_machine("localhost.example.com")


def own_addresses() -> set[str]:
    """Of this machine, as its own name leads to them."""
    found = {"127.0.0.1"}
    with contextlib.suppress(OSError):
        found |= {str(each[4][0]) for each in socket.getaddrinfo(socket.gethostname(), 0)}
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        asked.connect(("192.0.2.1", 9))
        found.add(asked.getsockname()[0])
    return found


def test_no_url_leads_to_an_address_of_this_machine() -> None:
    assert [each for each in own_addresses() if may_reach(each)] == []


@contextlib.asynccontextmanager
async def listening() -> AsyncIterator[tuple[int, list[object]]]:
    """A port of loopback, and who has connected."""
    came: list[object] = []

    def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(writer.get_extra_info("peername"))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], came


async def by_httpx(url: str) -> object:
    async with httpx.AsyncClient() as client:
        return await client.get(url)


async def by_httpx2(url: str) -> object:
    async with httpx2.AsyncClient() as client:
        return await client.get(url)


async def by_aiohttp(url: str) -> object:
    async with aiohttp.ClientSession() as client, client.get(url) as answer:
        return answer


async def by_websockets(url: str) -> object:
    return await websockets.connect(url.replace("http", "ws"))


async def by_streams(url: str) -> object:
    parts = httpx.URL(url)
    return await asyncio.open_connection(parts.host, parts.port)


async def by_anyio(url: str) -> object:
    parts = httpx.URL(url)
    return await anyio.connect_tcp(parts.host, parts.port or 80)


LIBRARIES = (by_httpx, by_httpx2, by_aiohttp, by_websockets, by_streams, by_anyio)


@pytest.mark.parametrize("loop", [loop_factory(), asyncio.new_event_loop], ids=("uvloop", "asyncio"))
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::ffff:127.0.0.1]"])
def test_no_library_connects_where_a_closed_url_may_not_lead(
    loop: Callable[[], asyncio.AbstractEventLoop], library: Callable[[str], Awaitable[object]], host: str
) -> None:
    async def main() -> None:
        async with listening() as (port, came):
            url = f"http://{host}:{port}/"
            with closed(), pytest.raises((OSError, httpx.HTTPError, httpx2.HTTPError)):
                await library(url)
            assert came == []
            with contextlib.suppress(Exception):  # the server answers nothing
                await library(f"http://127.0.0.1:{port}/")
            assert came  # outside of the block it goes on

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())


def test_the_address_that_was_looked_at_is_the_one_that_is_connected_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name that leads elsewhere the second time it is asked for, as in DNS rebinding, is asked for once."""
    asked: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        own = loop.getaddrinfo

        async def getaddrinfo(host: str, port: int, **options: Any) -> Any:
            if host != "rebinding.test":
                return await own(host, port, **options)
            asked.append(host)
            address = "127.0.0.1" if len(asked) > 1 else "192.0.2.77"
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

        monkeypatch.setitem(loop.__dict__, "getaddrinfo", getaddrinfo)
        async with listening() as (port, came):
            with closed(), contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(0.5):
                    await asyncio.open_connection("rebinding.test", port)
            assert asked == ["rebinding.test"]
            assert came == []

    asyncio.run(main())


def test_of_several_addresses_those_are_taken_that_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()

        async def getaddrinfo(_host: str, port: int, **_: Any) -> Any:
            found = ("127.0.0.1", "10.1.2.3", "10.1.2.3", "::1")
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in found]

        monkeypatch.setitem(loop.__dict__, "getaddrinfo", getaddrinfo)
        assert await reachable("some.test", 80) == ["10.1.2.3"]

    asyncio.run(main())


def test_a_host_with_no_other_address_is_refused() -> None:
    with pytest.raises(ForbiddenAddressError, match="edit:network"):
        asyncio.run(reachable("localhost", 80))


def test_nothing_goes_by_a_proxy_of_the_environment_which_would_resolve_names_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reach, "may_reach", lambda _address: True)  # as of a proxy on another machine

    async def main() -> None:
        async with listening() as (port, came):
            for name in ("http_proxy", "HTTP_PROXY"):
                monkeypatch.setenv(name, f"http://localhost:{port}")
            with closed():
                async with aiohttp.ClientSession(trust_env=True) as client:
                    with pytest.raises(aiohttp.ClientConnectorError) as refused:
                        await client.get("http://some.example.com/")
                    assert isinstance(refused.value.os_error, ForbiddenAddressError)
                with pytest.raises(httpx.ConnectError):
                    await by_httpx("http://some.example.com/")
            assert came == []

    asyncio.run(main())


def test_a_socket_tries_each_address_that_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "may_reach", lambda address: address != "127.0.0.3")

    async def main() -> None:
        loop = asyncio.get_running_loop()

        async def getaddrinfo(_host: str, port: int, **_: Any) -> Any:
            found = ("127.0.0.3", "127.0.0.2", "::1", "127.0.0.1")
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in found]

        monkeypatch.setitem(loop.__dict__, "getaddrinfo", getaddrinfo)
        async with listening() as (port, _came):
            with closed(), socket.socket() as made:
                made.setblocking(False)
                await loop.sock_connect(made, ("some.test", port))
                assert made.getpeername() == ("127.0.0.1", port)

    asyncio.run(main())
