"""Unix sockets at paths where anything may lie: who may open them, what is replaced, and what is left alone."""

from __future__ import annotations

import os
import socket
import stat
from typing import TYPE_CHECKING

import pytest

from pallas_supervisor.sockets.listeners import close_listeners
from pallas_supervisor.sockets.unix_sockets import (
    UnusablePathError,
    listen_at,
    make_directory,
    path_of,
    remove_leftovers,
)
from support.supervisor.processes import nothing_leaked

if TYPE_CHECKING:
    from pathlib import Path

NAME = "0123456789abcdef.sock"


def nothing(_path: str) -> None:
    """Nothing was handed down."""


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def left_behind(path: Path) -> None:
    """A socket file that nobody listens at."""
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))


def test_only_its_user_may_open_it_and_it_goes_when_it_is_closed(tmp_path: Path) -> None:
    directory = tmp_path / "agents"
    mask = os.umask(0)
    try:
        with nothing_leaked():
            make_directory(directory)
            listener = listen_at(directory / NAME, nothing)
            assert (mode(directory), mode(directory / NAME)) == (0o700, 0o600)
            assert not listener.getblocking()
            assert not listener.get_inheritable()
            assert path_of(listener) == str(directory / NAME)
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(directory / NAME))
            close_listeners([listener])
        assert list(directory.iterdir()) == []
        close_listeners([listener])  # once more
    finally:
        os.umask(mask)


def test_a_directory_that_others_may_enter_is_closed_to_them(tmp_path: Path) -> None:
    directory = tmp_path / "agents"
    directory.mkdir()
    directory.chmod(0o777)
    make_directory(directory)
    assert mode(directory) == 0o700


def test_a_directory_that_is_none_or_anothers_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link, file, missing = tmp_path / "link", tmp_path / "file", tmp_path / "not" / "there"
    link.symlink_to(tmp_path)
    file.touch()
    for path, said in ((link, "a symbolic link is in the way"), (file, "a file is in the way")):
        with pytest.raises(UnusablePathError, match=f"^{said} at {path}; remove it$"):
            make_directory(path)
    with pytest.raises(UnusablePathError, match=f"^cannot listen at {missing}: No such file or directory$"):
        make_directory(missing)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(
        UnusablePathError, match=r"belongs to another user \(uid \d+\); remove it, or set PALLAS_"
    ):
        make_directory(tmp_path)


def test_what_a_killed_supervisor_left_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / NAME
    left_behind(path)
    listener = listen_at(path, nothing)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
    close_listeners([listener])


def test_what_was_handed_down_is_used_unless_its_file_is_gone(tmp_path: Path) -> None:
    path = tmp_path / NAME
    kept = listen_at(path, nothing)
    inode = path.lstat().st_ino
    asked: list[str] = []

    def handed_down(path: str) -> socket.socket:
        asked.append(path)
        return kept

    assert listen_at(path, handed_down) is kept
    assert path.lstat().st_ino == inode
    path.unlink()
    anew = listen_at(path, handed_down)
    assert anew is not kept
    assert asked == [str(path)]
    kept.close()
    close_listeners([anew])


def test_anything_else_at_the_path_stays_and_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").touch()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").write_text("mine")
    os.mkfifo(tmp_path / "pipe")
    left_behind(tmp_path / "anothers")
    with nothing_leaked():
        for name, said in {
            "link": "a symbolic link",
            "directory": "a directory",
            "file": "a file",
            "pipe": "a special file",
        }.items():
            with pytest.raises(
                UnusablePathError, match=f"^{said} is in the way at {tmp_path / name}; remove it$"
            ):
                listen_at(tmp_path / name, nothing)
        monkeypatch.setattr(os, "getuid", lambda: 12345)
        with pytest.raises(UnusablePathError, match=r"^a socket of another user \(uid \d+\) is in the way"):
            listen_at(tmp_path / "anothers", nothing)
    assert len(list(tmp_path.iterdir())) == 6


@pytest.mark.parametrize(("length", "fits"), [(107, True), (108, False)])
def test_the_longest_path(length: int, fits: bool, tmp_path: Path) -> None:
    directory = tmp_path / ("x" * (length - len(NAME) - 2 - len(str(tmp_path))))
    directory.mkdir()
    path = directory / NAME
    assert len(os.fsencode(path)) == length
    if fits:
        close_listeners([listen_at(path, nothing)])
        return
    with pytest.raises(UnusablePathError) as refused:
        listen_at(path, nothing)
    assert str(refused.value) == (
        "the path of its unix socket has 108 bytes, 107 are allowed; set PALLAS_RUNTIME_DIR to a path that is "
        "shorter by 1, or give it a port"
    )


def test_files_of_agents_that_are_gone_are_removed_and_nothing_else(tmp_path: Path) -> None:
    wanted, gone = tmp_path / NAME, tmp_path / "ffff456789abcdef.sock"
    strange, file = tmp_path / "mine.sock", tmp_path / "eeee456789abcdef.sock"
    for path in (wanted, gone, strange):
        left_behind(path)
    file.touch()
    remove_leftovers(tmp_path, [wanted])
    assert set(tmp_path.iterdir()) == {wanted, strange, file}
    remove_leftovers(tmp_path / "nowhere", [])
