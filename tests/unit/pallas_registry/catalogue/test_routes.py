"""The catalogue over HTTP: what clients, caches and browsers get."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from pallas_registry.catalogue import routes as module
from pallas_registry.catalogue.entries import Catalogue
from pallas_registry.catalogue.routes import catalogue_routes
from support.data.catalogue import NOON, SECOND, entries

if TYPE_CHECKING:
    from pallas_registry.catalogue.entries import CatalogueView

DISCOVERY = "/.well-known/mcp/server.json"
VERSIONS = "/v0.1/servers/com.example.project%2Fa-b/versions"
URLS = [
    DISCOVERY,
    "/v0.1/servers",
    "/v0.1/servers?limit=1",
    VERSIONS,
    f"{VERSIONS}/latest",
    f"{VERSIONS}/1.0.0",
]


class Site:
    """A catalogue behind its routes, with a clock that stands still."""

    def __init__(self) -> None:
        self.now = NOON + 10 * SECOND
        self.book = Catalogue()
        self.book.update(entries("a_b", "c"), NOON + 0.5 * SECOND)
        self.client = TestClient(Starlette(routes=catalogue_routes(lambda: self.book.view, lambda: self.now)))

    def change(self, *agents: str) -> None:
        self.book.update(entries(*agents), self.now)


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.mark.parametrize("url", URLS)
def test_answers_are_public_json_that_caches_ask_about(site: Site, url: str) -> None:
    answer = site.client.get(url)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["etag"] == site.book.view.etag
    assert answer.headers["last-modified"] == "Thu, 12 Mar 2026 12:00:01 GMT"
    assert answer.json()


def test_the_discovery_document(site: Site) -> None:
    assert [entry["server"]["name"] for entry in site.client.get(DISCOVERY).json()["servers"]] == [
        "com.example.project/a-b",
        "com.example.project/c",
    ]
    site.change("c")
    assert [entry["server"]["name"] for entry in site.client.get(DISCOVERY).json()["servers"]] == [
        "com.example.project/c"
    ]


def test_the_sub_registry(site: Site) -> None:
    first = site.client.get("/v0.1/servers", params={"limit": 1}).json()
    assert first["metadata"]["count"] == 1
    second = site.client.get("/v0.1/servers", params={"cursor": first["metadata"]["nextCursor"]}).json()
    assert second["metadata"] == {"count": 1}
    assert first["servers"] + second["servers"] == site.client.get(DISCOVERY).json()["servers"]


@pytest.mark.parametrize("separator", ["%2F", "/"])
def test_a_server_and_its_version(site: Site, separator: str) -> None:
    base = f"/v0.1/servers/com.example.project{separator}a-b/versions"
    entry = site.book.view.entries[0].document
    assert site.client.get(base).json() == {"servers": [entry], "metadata": {"count": 1}}
    assert site.client.get(f"{base}/latest").json() == entry
    assert site.client.get(f"{base}/1.0.0").json() == entry


@pytest.mark.parametrize("url", URLS)
def test_head_is_get_without_a_body(site: Site, url: str) -> None:
    head, get = site.client.head(url), site.client.get(url)
    assert (head.status_code, dict(head.headers)) == (get.status_code, dict(get.headers))


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("form", ["{}", "W/{}", '"other", {}', "*"])
def test_who_has_it_is_told_so(site: Site, url: str, form: str) -> None:
    etag = site.book.view.etag
    answer = site.client.get(url, headers={"If-None-Match": form.format(etag)})
    assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", etag)
    site.change("a_b")
    if form != "*":
        assert site.client.get(url, headers={"If-None-Match": form.format(etag)}).status_code == 200


def test_a_hit_encodes_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> bytes:
        raise AssertionError("encoded")

    monkeypatch.setattr(module, "encoded", refuse)
    for url in URLS:
        answer = site.client.get(url, headers={"If-None-Match": site.book.view.etag})
        assert answer.status_code == 304
    assert site.client.get(DISCOVERY).content == site.book.view.body


def test_an_entity_tag_beats_a_date(site: Site) -> None:
    headers = {"If-None-Match": '"other"', "If-Modified-Since": "Thu, 12 Mar 2026 13:00:00 GMT"}
    assert site.client.get(DISCOVERY, headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("since", "status"),
    [
        ("Thu, 12 Mar 2026 12:00:01 GMT", 304),
        ("Thu, 12 Mar 2026 13:00:00 GMT", 304),
        (
            "Thu, 12 Mar 2026 12:00:00 GMT",
            200,
        ),  # before or after the change, within that second: nobody knows
        ("Thu, 12 Mar 2026 11:59:59 GMT", 200),
        ("yesterday", 200),
        ("Thu, 99 Mar 2026 11:59:59 GMT", 200),
        ("Thu, 12 Mar 99999999999 11:59:59 GMT", 200),
        ("Thu, 12 Mar 2026 13:00:00 -0000", 200),
        ("", 200),
    ],
)
def test_dates(site: Site, since: str, status: int) -> None:
    assert site.client.get(DISCOVERY, headers={"If-Modified-Since": since}).status_code == status


def test_two_changes_in_a_second_are_never_taken_for_one(site: Site) -> None:
    for _ in range(3):
        for agents in (("a_b",), ("c",), ("a_b", "c")):
            site.now += dt.timedelta(milliseconds=300)
            site.change(*agents)
            answer = site.client.get(DISCOVERY)
            date = answer.headers["last-modified"]
            assert date <= site.now.strftime("%a, %d %b %Y %H:%M:%S GMT")
            site.change("c", "a_b")
            again = site.client.get(DISCOVERY, headers={"If-Modified-Since": date})
            assert again.status_code == 200


@pytest.mark.parametrize(
    ("url", "status", "part"),
    [
        ("/v0.1/servers?limit=0", 400, "limit: '0' is not a whole number from 1 to 100"),
        ("/v0.1/servers?limit=101", 400, "limit"),
        ("/v0.1/servers?cursor=!", 400, "cursor"),
        ("/v0.1/servers?updated_since=soon", 400, "updated_since"),
        ("/v0.1/servers/x%2Fy/versions", 404, "there is no server 'x/y' here"),
        ("/v0.1/servers/x%2Fy/versions/latest", 404, "there is no server 'x/y' here"),
        (f"{VERSIONS}/2.0.0", 404, "has no version '2.0.0'"),
    ],
)
def test_errors_are_json_that_says_why(site: Site, url: str, status: int, part: str) -> None:
    for headers in ({}, {"If-None-Match": site.book.view.etag}):
        answer = site.client.get(url, headers=headers)
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["access-control-allow-origin"] == "*"
        assert "etag" not in answer.headers
        assert part in answer.json()["error"]


@pytest.mark.parametrize("url", [*URLS, "/v0.1/servers?limit=x", "/v0.1/servers/x%2Fy/versions"])
def test_browsers_may_ask_first(site: Site, url: str) -> None:
    answer = site.client.options(url, headers={"Origin": "https://x", "Access-Control-Request-Method": "GET"})
    assert answer.status_code == 204
    assert answer.headers["access-control-allow-origin"] == "*"
    assert "GET" in answer.headers["access-control-allow-methods"]


@pytest.mark.parametrize("url", URLS)
def test_it_is_read_only(site: Site, url: str) -> None:
    assert site.client.post(url).status_code == 405


def test_the_clock_by_default_is_the_walls() -> None:
    book = Catalogue()
    book.update(entries("a"), dt.datetime.now(dt.UTC) - 5 * SECOND)
    shown: CatalogueView = book.view
    client = TestClient(Starlette(routes=catalogue_routes(lambda: shown)))
    date = client.get(DISCOVERY).headers["last-modified"]
    assert client.get(DISCOVERY, headers={"If-Modified-Since": date}).status_code == 304
