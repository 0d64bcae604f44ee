"""Lists of servers are read to their end, and no farther than their bounds."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from pallas_common.protocol.mcp import lists
from pallas_common.protocol.mcp.lists import ListError, Listing, read_list

if TYPE_CHECKING:
    from pallas_common.protocol.mcp.lists import ListName

SCHEMA = {"type": "object"}


def named(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "inputSchema": SCHEMA} for name in names]


def read(pages: dict[str | None, Any], name: ListName = "tools") -> Listing:
    async def ask(cursor: str | None) -> dict[str, Any]:
        result: dict[str, Any] = pages[cursor]
        return result

    return asyncio.run(read_list(name, ask))


def test_a_list_is_read_to_its_end_each_entry_once() -> None:
    listing = read(
        {
            None: {"tools": named("a", "b"), "nextCursor": "2"},
            "2": {"tools": named("b", "c"), "nextCursor": ""},
            "": {"tools": named("d")},
        }
    )
    assert [entry["name"] for entry in listing.entries] == ["a", "b", "c", "d"]
    assert listing.note == ""


def test_pages_that_do_not_end_are_cut_and_what_is_there_is_used() -> None:
    listing = read({None: {"tools": named("a"), "nextCursor": "1"}, "1": {"tools": [], "nextCursor": "1"}})
    assert [entry["name"] for entry in listing.entries] == ["a"]
    assert listing.note == "only 1 of its tools are used: their pages do not end"


@pytest.mark.parametrize("cursor", [1, ["x"], "x" * 5_000, True])
def test_a_cursor_that_is_none_ends_the_list(cursor: object) -> None:
    assert read({None: {"tools": named("a"), "nextCursor": cursor}}).cut is not None


def test_there_are_bounds_of_pages_entries_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(dict[Any, Any]):
        def __missing__(self, cursor: str | None) -> dict[str, Any]:
            number = int(cursor or 0)
            return {"tools": named(f"t{number}"), "nextCursor": str(number + 1)}

    assert len(read(Endless()).entries) == lists.MOST_PAGES
    monkeypatch.setattr(lists, "MOST_ENTRIES", 3)
    listing = read({None: {"tools": named(*"abcdef")}})
    assert (len(listing.entries), listing.note) == (
        3,
        "only 3 of its tools are used: there are more than are taken (3, 8 MiB)",
    )
    assert read({None: {"tools": named(*"abc")}}).cut is None
    monkeypatch.setattr(lists, "MOST_BYTES", 100)
    assert len(read({None: {"tools": named("a", "b" * 90)}}).entries) == 1


def test_entries_that_nobody_can_use_are_counted() -> None:
    entries = [*named("a", "two\nlines", "x" * 300), {"name": "bare"}, 7, {"name": None, "inputSchema": {}}]
    listing = read({None: {"tools": entries}})
    assert [entry["name"] for entry in listing.entries] == ["a"]
    assert listing.note == "5 of its tools are left out: the first has no usable name"


def test_resources_go_by_their_uris() -> None:
    pages: dict[str | None, Any] = {None: {"resources": [{"uri": "a://b"}, {"uri": "c://d", "name": "two"}]}}
    found = read(pages, "resources").entries
    assert found == [{"uri": "a://b", "name": "a://b"}, {"uri": "c://d", "name": "two"}]


@pytest.mark.parametrize("entries", [None, {}, "abc"])
def test_what_is_no_list_is_an_error(entries: object) -> None:
    with pytest.raises(ListError, match="its answer to tools/list has no list of tools"):
        read({None: {"tools": entries}})
