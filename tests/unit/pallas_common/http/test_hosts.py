"""Which Host and Origin headers are served: names that the deployment has, addresses, and no page of elsewhere."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from pallas_common.http.hosts import MAX_TARGET, HostGuard, Hosts, served_hosts
from support.data.agents_text import parse

if TYPE_CHECKING:
    from starlette.requests import Request

HOSTS = Hosts(["localhost", "127.0.0.1", "::1", "Agents.Example.com", "10.0.0.5", "fd00::5"])


def status(host: str | None, origin: str | None = None) -> int:
    refusal = HOSTS.refusal(host, origin)
    return 200 if refusal is None else refusal.status


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:24200",
        "LOCALHOST:1",
        "agents.example.com",
        "agents.example.com.:443",
        "agents.example.com:",
        "192.0.2.7",
        "192.0.2.7:24200",
        "[::1]:24200",
        "[2001:DB8::7]",
        None,
    ],
)
def test_names_of_ours_and_all_addresses_are_served(host: str | None) -> None:
    assert status(host) == 200


@pytest.mark.parametrize(
    "host",
    [
        "",
        ":80",
        "evil.example",
        "evil.example:24200",
        "localhost.evil.example",
        "127.0.0.1.evil.example:80",
        "evil-localhost",
        "localhost:80@evil.example",
        "localhost:80:80",
        "localhost evil.example",
        "[localhost]x",
        "[::1",
        "::1",
        "127.1",
        "0x7f.0.0.1",
        "2130706433",
        "\xff",
        "a" * 100_000,
    ],
)
def test_other_names_are_refused(host: str) -> None:
    assert status(host) == 421


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://localhost:3000", "localhost:24200"),
        ("https://127.0.0.1", "localhost:24200"),
        ("http://[::1]:3000", "localhost:24200"),
        ("https://agents.example.com", "localhost:24200"),
        ("https://AGENTS.example.com:8443", "10.1.1.1"),
        ("http://10.0.0.5:3000", "localhost"),
        ("http://[fd00:0::5]", "localhost"),
        ("http://192.0.2.7:24200", "192.0.2.7:24200"),  # the page of the deployment itself
        ("https://192.0.2.7", "192.0.2.7"),
        ("http://[2001:db8::7]:24200", "[2001:db8::7]:24200"),
    ],
)
def test_pages_of_ours_may_ask(origin: str, host: str) -> None:
    assert status(host, origin) == 200


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://evil.example", "localhost:24200"),
        ("http://192.0.2.7", "127.0.0.1:24200"),  # an address is no name that was configured
        ("http://192.0.2.7:8080", "192.0.2.7:24200"),
        ("http://localhost.evil.example", "localhost"),
        ("http://localhost@evil.example", "localhost"),
        ("http://localhost:80@evil.example", "localhost"),
        ("http://evil.example/localhost", "localhost"),
        ("http://evil.example#localhost", "localhost"),
        ("null", "localhost"),
        ("", "localhost"),
        ("x", "localhost"),
        ("file://", "localhost"),
        ("chrome-extension://localhost", "localhost"),
        ("http://localhost, http://evil.example", "localhost"),
        ("http://192.0.2.7", None),
    ],
)
def test_pages_of_elsewhere_may_not(origin: str, host: str | None) -> None:
    assert status(host, origin) == 403


def test_a_name_that_resolves_to_us_for_a_while_is_refused_though_the_origin_is_the_same() -> None:
    assert status("evil.example:24200", "http://evil.example:24200") == 421


def test_the_refusal_names_what_it_refuses_and_the_way_out() -> None:
    refusal = HOSTS.refusal("x" * 1000, None)
    assert refusal is not None
    assert "`hosts:` in agents.yaml" in refusal.message
    assert len(refusal.message) < 300
    other = HOSTS.refusal("localhost", "http://evil.example/\x1b[2J")
    assert other is not None
    assert "\x1b" not in other.message


def asked(path: str, **headers: str) -> httpx.Response:
    async def hello(_: object) -> PlainTextResponse:
        return PlainTextResponse("hello")

    app = HostGuard(
        Starlette(routes=[Route("/", hello), Route("/livez", hello)]), lambda: Hosts(["localhost"])
    )

    async def run() -> httpx.Response:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://localhost"
        ) as client:
            return await client.get(path, headers=headers)

    return asyncio.run(run())


def test_the_guard_stands_before_all_but_the_sign_of_life() -> None:
    assert asked("/").text == "hello"
    assert asked("/", Host="evil.example").status_code == 421
    assert asked("/", Origin="http://evil.example").status_code == 403
    assert asked("/nothing", Host="evil.example").status_code == 421
    assert asked("/livez", Host="evil.example").text == "hello"


def test_a_request_whose_length_two_could_read_differently_is_refused_and_its_connection_closed() -> None:
    for path in ("/", "/livez"):
        refused = asked(path, **{"Content-Length": "3", "Transfer-Encoding": "chunked"})
        assert refused.status_code == 400
        assert refused.headers["connection"] == "close"
    assert asked("/", **{"Transfer-Encoding": "chunked"}).text == "hello"


def test_a_target_that_is_too_long_is_refused() -> None:
    assert asked(f"/?{'&a' * (MAX_TARGET // 2 - 1)}").status_code == 200
    assert asked(f"/?{'&a' * MAX_TARGET}").status_code == 414
    assert asked(f"/livez{'a' * MAX_TARGET}").status_code == 414


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("", {"localhost", "127.0.0.1", "::1"}),
        ("bind: 0.0.0.0\n", {"localhost", "127.0.0.1", "::1"}),
        ("host: agents.example.com\n", {"localhost", "127.0.0.1", "::1", "agents.example.com"}),
        (
            "host: agents.example.com\nbind: 10.0.0.5\nhosts: [agents.lan, 'fd00::5', localhost]\n",
            {"localhost", "127.0.0.1", "::1", "agents.example.com", "10.0.0.5", "agents.lan", "fd00::5"},
        ),
    ],
)
def test_a_deployment_is_reached_by_what_it_says_and_from_here(head: str, expected: set[str]) -> None:
    deployment = parse(f"name: test\n{head}agents:\n  one: {{module: agents.one, port: 24301}}\n")
    served = served_hosts(deployment.host, deployment.hosts, deployment.bind)
    assert set(served) == expected
    assert len(served) == len(expected)


def plain(target: str, **headers: str) -> httpx.Response:
    async def path(request: Request) -> PlainTextResponse:
        return PlainTextResponse(f"{request.url.path} {request.scope['raw_path'].decode()}")

    routes = [Route(each, path) for each in ("/", "/v1/models", "/page/connect")]
    app = HostGuard(Starlette(routes=routes), lambda: HOSTS)

    async def run() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app)) as client:
            return await client.get(f"http://localhost{target}", headers=headers)

    return asyncio.run(run())


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/", "//v1/models", "/v1//models///"])
def test_a_slash_at_the_end_and_a_second_one_change_nothing(path: str) -> None:
    assert plain(path).text == "/v1/models /v1/models"


def test_the_root_is_the_root_however_many_slashes() -> None:
    assert plain("/").text == plain("//").text == "/ /"


def test_a_browser_is_sent_to_the_page_without_one_as_its_addresses_are_relative() -> None:
    moved = plain("/page/connect/?a=b", accept="text/html,*/*")
    assert (moved.status_code, moved.headers["location"]) == (308, "../connect?a=b")
    assert str(moved.request.url.join(moved.headers["location"])) == "http://localhost/page/connect?a=b"
    assert plain("/page/connect", accept="text/html").status_code == 200


def test_the_names_are_checked_of_such_paths_as_well() -> None:
    assert plain("//v1/models/", host="evil.example").status_code == 421
