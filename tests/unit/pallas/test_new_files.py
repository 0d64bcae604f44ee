"""New files: all of them whole, or none, and never in the place of another one."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from pallas.new_files import write_new

if TYPE_CHECKING:
    from pathlib import Path


def names(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*")}


def test_files_and_their_folders(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_new(tmp_path / "new", {"a/b.txt": "é\n", "c": ""})
    finally:
        os.umask(before)
    assert names(tmp_path / "new") == {"a", "a/b.txt", "c"}
    assert (tmp_path / "new/a/b.txt").read_text("utf-8") == "é\n"
    assert (tmp_path / "new/a/b.txt").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("kind", ["file", "folder", "dangling link"])
def test_what_is_there_stays_and_nothing_else_is_written(kind: str, tmp_path: Path) -> None:
    taken = tmp_path / "last"
    if kind == "file":
        taken.write_text("mine")
    elif kind == "folder":
        taken.mkdir()
    else:
        taken.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        write_new(tmp_path, {"a/b": "x", "c": "y", "last": "z"})
    assert names(tmp_path) == {"last"}
    assert kind != "file" or taken.read_text() == "mine"


def test_a_file_system_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    write_new(tmp_path, {"a": "x"})
    assert (names(tmp_path), (tmp_path / "a").read_text()) == ({"a"}, "x")
    with pytest.raises(FileExistsError):
        write_new(tmp_path, {"a": "y"})
    assert (names(tmp_path), (tmp_path / "a").read_text()) == ({"a"}, "x")


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []

    def fail_later(descriptor: int) -> None:
        written.append(descriptor)
        if len(written) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail_later)
    with pytest.raises(OSError, match="No space left"):
        write_new(tmp_path / "x", {"a/b": "x", "c": "y"})
    assert names(tmp_path) == set()
