"""What was typed, from one chat to the next."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from pallasctl.verbs.talk.terminal import input_history
from pallasctl.verbs.talk.terminal.input_history import InputHistory, history_file, read_entries


@pytest.mark.parametrize(
    ("environ", "path"),
    [
        ({"XDG_STATE_HOME": "/state", "HOME": "/home/ada"}, "/state/pallas/chat_history"),
        ({"XDG_STATE_HOME": "relative", "HOME": "/home/ada"}, "/home/ada/.local/state/pallas/chat_history"),
        ({"HOME": "/home/ada"}, "/home/ada/.local/state/pallas/chat_history"),
        ({}, None),
        ({"PALLAS_CHAT_HISTORY": "/other", "HOME": "/home/ada"}, "/other"),
        ({"PALLAS_CHAT_HISTORY": "", "HOME": "/home/ada"}, None),
    ],
)
def test_where_it_is(environ: dict[str, str], path: str | None) -> None:
    assert history_file(environ) == (None if path is None else Path(path))


def test_what_is_typed_is_there_the_next_time(tmp_path: Path) -> None:
    path = tmp_path / "new" / "history"
    history = InputHistory(path)
    for entry in ("one", "two\nlines", "  ", "\udcff", "x" * 10_000):
        history.add(entry)
    assert (history.problem, history.entries) == ("", [])
    assert InputHistory(path).entries == ["one", "two\nlines", "\udcff"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_file_that_others_can_read_is_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_text('"one"\n')
    path.chmod(0o644)
    assert InputHistory(path).entries == ["one"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_it_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "history"
    monkeypatch.setattr(input_history, "MOST_ENTRIES", 10)
    monkeypatch.setattr(input_history, "LARGEST_FILE", 400)
    history = InputHistory(path)
    for number in range(1000):
        history.add(f"entry {number}")
    newest = [f"entry {number}" for number in range(990, 1000)]
    assert InputHistory(path).entries == newest
    assert path.stat().st_size < 400, "older ones are gone"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]
    assert InputHistory(path).entries == newest


def test_what_is_no_entry_is_passed_over() -> None:
    assert read_entries(b'nonsense\n5\n"half\n\n"\\u0000"\n""\n\xff\n"good"\n' + b"[" * 100_000) == ["good"]


def test_without_a_file(tmp_path: Path) -> None:
    history = InputHistory(None)
    history.add("one")
    assert (history.entries, history.problem) == ([], "")
    (tmp_path / "file").touch()
    history = InputHistory(tmp_path / "file" / "history")
    assert "is not kept for the next chat" in history.problem
    history.add("one")


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    target, path = tmp_path / "target", tmp_path / "history"
    target.write_text("untouched")
    path.symlink_to(target)
    history = InputHistory(path)
    history.add("one")
    assert (target.read_text(), bool(history.problem)) == ("untouched", True)
