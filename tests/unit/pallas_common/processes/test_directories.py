"""The working directory is called as it was entered, as long as that name leads there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pallas_common.processes.directories import entered_directory

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_link_by_which_it_was_entered_is_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, link = (tmp_path / name for name in ("first", "second", "current"))
    first.mkdir()
    second.mkdir()
    link.symlink_to(first)
    monkeypatch.chdir(link)
    for named, expected in (
        (str(link), link),
        (f"{link}/", first),
        (f"{link}/../current", first),
        (str(second), first),
        (str(tmp_path / "missing"), first),
        ("current", first),
        ("", first),
    ):
        monkeypatch.setenv("PWD", named)
        assert entered_directory() == expected
