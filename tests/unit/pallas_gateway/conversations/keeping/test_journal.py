"""A journal is read as far as it is whole, whatever was there when its writer died."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from pallas_gateway.conversations.keeping.journal import FOLDER, Journals

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_entries_come_back_in_their_order(tmp_path: Path) -> None:
    journals = Journals(tmp_path)
    journal = journals.of("one")
    assert list(journals.entries("one")) == []
    entries: list[list[object]] = [
        ["Text", "a\nb \ud800 é"],
        ["Reset", 3],
        ["ToolCall", "s__t", {"a": [1, None]}, "1", ""],
    ]
    for entry in entries:
        journal.add(entry)
        assert list(journals.entries("one"))[-1] == entry, "before it is told, not when it is closed"
    journal.close()
    assert journals.turns() == ["one"]
    assert list(Journals(tmp_path).entries("one")) == entries
    assert (tmp_path / FOLDER / "one").stat().st_mode & 0o777 == 0o600
    journals.remove("one")
    journals.remove("one")
    assert journals.turns() == []


@pytest.mark.parametrize("torn", [b'["Text","b', b"\n[]", b"{}\n[]\n", b"\xff\n[]\n", b"[" * 100_000 + b"\n"])
def test_what_is_torn_ends_it(tmp_path: Path, torn: bytes) -> None:
    journals = Journals(tmp_path)
    journals.of("one").add(["Text", "a"])
    with (tmp_path / FOLDER / "one").open("ab") as file:
        file.write(torn)
    assert list(journals.entries("one")) == [["Text", "a"]]


def test_where_nothing_can_be_written_it_goes_on(tmp_path: Path) -> None:
    journals = Journals(tmp_path)
    (tmp_path / FOLDER / "one").symlink_to(tmp_path / "elsewhere")
    journal = journals.of("one")
    journal.add(["Text", "a"])
    journal.add(["Text", "b"])
    journal.remove()
    assert not (tmp_path / "elsewhere").exists()
    assert journals.turns() == []


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_no_journal(tmp_path: Path, make: Callable[[Path], None]) -> None:
    journals = Journals(tmp_path)
    make(tmp_path / FOLDER / "one")
    assert list(journals.entries("one")) == []


def test_entries_are_read_one_after_the_other(tmp_path: Path) -> None:
    journals = Journals(tmp_path)
    journal = journals.of("one")
    journal.add(["Text", "a"])
    entries = journals.entries("one")
    assert next(entries) == ["Text", "a"]
    journal.add(["Text", "b"])
    assert next(entries) == ["Text", "b"]


def test_where_their_folder_is_gone_there_are_none(tmp_path: Path) -> None:
    journals = Journals(tmp_path)
    (tmp_path / FOLDER).rmdir()
    assert journals.turns() == []
    journals.of("one").add(["Text", "a"])
    assert list(journals.entries("one")) == []
