"""Which of the files that workers have loaded have changed; whatever a worker tells."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest

from pallas_common.protocol.reports import FileMark
from pallas_supervisor.reload.code import MOST_FILES, MOST_NAMED, LoadedCode

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def code(tmp_path: Path) -> LoadedCode:
    return LoadedCode(tmp_path)


def mark(path: Path, name: str | None = None, *, large: bool = False) -> FileMark:
    """What a worker tells of this file."""
    found = path.stat()
    digest = None if large else hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
    return FileMark(path=name or path.name, state=f"{found.st_size} {found.st_mtime_ns}", digest=digest)


def changed(code: LoadedCode, generation: int = 1) -> tuple[str, ...]:
    code.look()
    return code.changed("a", generation)


def test_a_file_has_changed_when_its_content_has(code: LoadedCode, tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    code.take("a", 1, [mark(path)])
    assert changed(code) == ()
    os.utime(path, ns=(1, 1))
    assert changed(code) == ()
    path.write_text("x = 2\n")
    assert changed(code) == ("a.py",)
    path.unlink()
    assert changed(code) == ("a.py",)
    path.write_text("x = 1\n")
    assert changed(code) == ()


def test_a_changed_file_is_read_once(code: LoadedCode, tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    code.take("a", 1, [mark(path)])
    code.take("b", 1, [mark(path)])
    path.write_text("x = 22\n")
    assert changed(code) == ("a.py",)
    with patch("pallas_supervisor.reload.code.read_file", side_effect=AssertionError("was read")):
        assert changed(code) == ("a.py",)


def test_of_a_large_file_size_and_time_count(code: LoadedCode, tmp_path: Path) -> None:
    path = tmp_path / "large.py"
    path.write_text("x = 1\n")
    code.take("a", 1, [mark(path, large=True)])
    assert changed(code) == ()
    os.utime(path, ns=(1, 1))
    assert changed(code) == ("large.py",)


def test_workers_are_kept_apart_and_forgotten(code: LoadedCode, tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    code.take("a", 1, [mark(path)])
    path.write_text("x = 2\n")
    code.take("a", 2, [mark(path)])
    assert (changed(code), changed(code, 2)) == (("a.py",), ())
    code.keep_only("a", [2])
    assert (changed(code), changed(code, 2)) == ((), ())
    code.agent_removed("a")
    assert changed(code, 2) == ()


@pytest.mark.parametrize("path", ["/etc/passwd", "../a.py", "x/../../a.py", "", "x" * 501])
def test_what_leads_out_is_not_looked_at(code: LoadedCode, path: str) -> None:
    code.take("a", 1, [FileMark(path=path, state="", digest="")])
    with patch("pathlib.Path.stat", side_effect=AssertionError("was looked at")):
        assert changed(code) == ()


@pytest.mark.parametrize("path", ["a\0b", "pipe", "folder", "loop", "missing/a.py"])
def test_whatever_is_told_nothing_waits_and_nothing_fails(
    code: LoadedCode, tmp_path: Path, path: str
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    code.take("a", 1, [FileMark(path=path, state="who knows", digest="nobody")])
    assert changed(code) == (path,)


@pytest.mark.parametrize("field", ["state", "digest"])
def test_a_mark_is_short(code: LoadedCode, field: str) -> None:
    mark = {"path": "a.py", "state": "", "digest": ""} | {field: "x" * 60_000}
    code.take("a", 1, [FileMark(**mark)])
    assert changed(code) == ()


def test_there_are_not_too_many(code: LoadedCode) -> None:
    for part in range(3):
        code.take("a", 1, [FileMark(path=f"{part}/{at}", state="") for at in range(MOST_FILES)])
    with patch("pathlib.Path.stat", side_effect=OSError) as looked:
        assert len(changed(code)) == MOST_NAMED
    assert looked.call_count == MOST_FILES
