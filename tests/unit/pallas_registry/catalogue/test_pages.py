"""The sub-registry's pages: every entry once, filtered as asked, and clear words for what is no query."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pallas_registry.catalogue.entries import Catalogue, CatalogueView
from pallas_registry.catalogue.pages import QueryError, one_version, page, parse_query, versions_of
from support.data.catalogue import NOON, SECOND, entries

AGENTS = st.lists(st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,6}", fullmatch=True), unique=True, max_size=12)


def view(*agents: str) -> CatalogueView:
    book = Catalogue()
    book.update(entries(*agents), NOON)
    return book.view


def names(document: dict[str, object]) -> list[str]:
    servers = document["servers"]
    assert isinstance(servers, list)
    return [entry["server"]["name"].partition("/")[2] for entry in servers]


def walk(shown: CatalogueView, **parameters: str) -> list[str]:
    """The names on all pages, by following the cursors."""
    found: list[str] = []
    cursor = ""
    for _ in range(100):
        document = page(shown, parse_query({**parameters, "cursor": cursor}))
        assert document["metadata"]["count"] == len(document["servers"])
        found += names(document)
        cursor = document["metadata"].get("nextCursor")
        if cursor is None:
            return found
        assert cursor
    raise AssertionError("the pages do not end")


@given(agents=AGENTS, limit=st.integers(1, 5))
def test_walking_the_pages_yields_every_entry_once(agents: list[str], limit: int) -> None:
    expected = sorted(agent.replace("_", "-") for agent in agents)
    assert walk(view(*agents), limit=str(limit)) == expected


@given(agents=AGENTS, gone=st.sets(st.integers(0, 11)), limit=st.integers(1, 4))
def test_who_stays_is_seen_once_while_others_leave(agents: list[str], gone: set[int], limit: int) -> None:
    first = page(view(*agents), parse_query({"limit": str(limit)}))
    if (cursor := first["metadata"].get("nextCursor")) is None:
        return
    left = [agent for index, agent in enumerate(agents) if index not in gone]
    rest = walk_from(view(*left), cursor, limit)
    seen = names(first) + rest
    assert len(seen) == len(set(seen))
    assert {agent.replace("_", "-") for agent in left} <= set(seen)


def walk_from(shown: CatalogueView, cursor: str | None, limit: int) -> list[str]:
    found: list[str] = []
    while cursor:
        document = page(shown, parse_query({"cursor": cursor, "limit": str(limit)}))
        found += names(document)
        cursor = document["metadata"].get("nextCursor")
    return found


def test_the_default_and_the_largest_limit() -> None:
    many = view(*(f"a{index:03}" for index in range(150)))
    assert len(page(many, parse_query({}))["servers"]) == 30
    assert len(page(many, parse_query({"limit": "100"}))["servers"]) == 100


def test_search_is_in_the_name_in_whatever_case() -> None:
    shown = view("tech_research", "jarvis")
    assert names(page(shown, parse_query({"search": "RESEARCH"}))) == ["tech-research"]
    assert names(page(shown, parse_query({"search": "com.example"}))) == ["jarvis", "tech-research"]
    assert names(page(shown, parse_query({"search": "About"}))) == []
    assert names(page(shown, parse_query({"search": ""}))) == ["jarvis", "tech-research"]


def test_version_is_latest_or_exact() -> None:
    shown = view("a")
    for version, found in (("latest", ["a"]), ("1.0.0", ["a"]), ("", ["a"]), ("1.0", []), ("2.0.0", [])):
        assert names(page(shown, parse_query({"version": version}))) == found


@pytest.mark.parametrize(
    ("since", "found"),
    [
        ("2026-03-12T12:00:00Z", ["a", "b"]),
        ("2026-03-12T12:00:01Z", ["b"]),
        ("2026-03-12T12:00:05Z", ["b"]),
        ("2026-03-12T12:00:05.500000001Z", ["b"]),
        ("2026-03-12T12:00:06Z", []),
        ("2026-03-12t14:00:05+02:00", ["b"]),
        ("2026-03-12T14:00:05 02:00", ["b"]),  # a plus that was not percent-encoded
        ("2026-03-12T11:00:06-01:00", []),
        ("", ["a", "b"]),
        ("0001-01-01T00:00:00+23:59", ["a", "b"]),
        ("9999-12-31T23:59:59-23:59", []),
    ],
)
def test_updated_since_includes_its_own_moment(since: str, found: list[str]) -> None:
    book = Catalogue()
    book.update(entries("a"), NOON)
    book.update(entries("a", "b"), NOON + 5.5 * SECOND)
    assert names(page(book.view, parse_query({"updated_since": since}))) == found


def test_filters_and_pages_go_together() -> None:
    shown = view("a1", "b1", "a2", "b2", "a3")
    assert walk(shown, limit="2", search="/a") == ["a1", "a2", "a3"]


@pytest.mark.parametrize(
    ("parameters", "part"),
    [
        *(({"limit": limit}, "limit: ") for limit in ("0", "101", "-1", "x", "1.5", "١", " 5", "9" * 5000)),
        *(({"cursor": cursor}, "cursor: ") for cursor in ("!", "a", "____", "é", "=", "a b")),
        *(
            ({"updated_since": since}, "updated_since: ")
            for since in (
                *(
                    "yesterday",
                    "2026-03-12",
                    "2026-03-12T12:00:00",
                    "2026-13-12T12:00:00Z",
                    "2026-03-12T25:00:00Z",
                ),
                *("20260312T120000Z", "1773309600", "2026-03-12T12:00:00+99:00", "2026-03-12T12:00:60Z"),
            )
        ),
    ],
)
def test_what_is_no_query(parameters: dict[str, str], part: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse_query(parameters)
    message = str(caught.value)
    assert message.startswith(part)
    assert len(message) < 200


@given(st.dictionaries(st.sampled_from(["limit", "cursor", "search", "updated_since", "version"]), st.text()))
def test_nothing_else_is_raised(parameters: dict[str, str]) -> None:
    try:
        query = parse_query(parameters)
    except QueryError:
        return
    page(view("a"), query)


def test_versions() -> None:
    shown = view("tech_research")
    name = "com.example.project/tech-research"
    entry = shown.entries[0].document
    assert versions_of(shown, name) == {"servers": [entry], "metadata": {"count": 1}}
    assert versions_of(shown, "com.example.project/other") is None
    assert one_version(shown, name, "latest") == one_version(shown, name, "1.0.0") == entry
    assert one_version(shown, name, "2.0.0") is None
    assert one_version(shown, "x", "latest") is None


def test_moments_are_aware() -> None:
    moment = parse_query({"updated_since": "2026-03-12T12:00:00.25Z"}).updated_since
    assert moment == dt.datetime(2026, 3, 12, 12, 0, 0, 250_000, tzinfo=dt.UTC)
