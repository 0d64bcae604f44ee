"""The rotating log file: whole lines or none, on disks that fill up, at every moment. Real files."""

from __future__ import annotations

import os
import resource
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pallas_supervisor.logs.rotating_file import RotatingFile, claim
from support.supervisor.processes import nothing_leaked

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    with nothing_leaked():
        yield


@contextmanager
def opened(path: Path, max_bytes: int = 1_000_000, backups: int = 3) -> Iterator[RotatingFile]:
    file = RotatingFile(path, max_bytes=max_bytes, backups=backups)
    try:
        yield file
    finally:
        file.close()


@contextmanager
def longest_file(size: int) -> Iterator[None]:
    """No file of this process can get longer: the kernel ends a write in its middle, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_lines_are_appended_to_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "pallas.log"
    path.write_bytes(b"old\n")
    with opened(path) as file:
        file.write(b"new")
        file.write(b"")
    assert path.read_bytes() == b"old\nnew\n\n"


def test_a_line_that_a_killed_writer_left_unfinished_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "pallas.log"
    path.write_bytes(b"whole\n{torn")
    with opened(path) as file:
        file.write(b"next")
    assert path.read_bytes() == b"whole\nnext\n"


def test_a_file_that_is_no_log_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "pallas.log"
    path.write_bytes(b"somebody's")
    with opened(path) as file:
        file.write(b"line")
    assert path.read_bytes() == b"somebody's\nline\n"


def test_a_full_disk_leaves_no_torn_line_and_the_next_one_that_fits_is_written(tmp_path: Path) -> None:
    path = tmp_path / "pallas.log"
    with opened(path) as file:
        file.write(b"a" * 99)
        with longest_file(150):
            for _ in range(3):
                with pytest.raises(OSError, match="File too large"):
                    file.write(b"b" * 99)
            file.write(b"c" * 9)
        file.write(b"d" * 9)
    assert path.read_bytes() == b"a" * 99 + b"\n" + b"c" * 9 + b"\n" + b"d" * 9 + b"\n"


def test_a_disk_that_is_full_while_the_file_rotates_is_survived(tmp_path: Path) -> None:
    path = tmp_path / "pallas.log"
    with opened(path, max_bytes=100) as file:
        file.write(b"a" * 79)
        with longest_file(0):
            for _ in range(2):
                with pytest.raises(OSError, match="File too large"):
                    file.write(b"b" * 79)
        file.write(b"c" * 79)
    assert path.read_bytes() == b"c" * 79 + b"\n"
    assert (tmp_path / "pallas.log.1").read_bytes() == b"a" * 79 + b"\n"


def test_as_many_predecessors_are_kept_as_were_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "pallas.log"
    with opened(path, max_bytes=10, backups=2) as file:
        for number in range(6):
            file.write(f"line {number}".encode())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["pallas.log", "pallas.log.1", "pallas.log.2"]
    assert [p.read_text() for p in sorted(tmp_path.iterdir())] == ["line 5\n", "line 4\n", "line 3\n"]


def test_a_line_longer_than_the_file_may_be_stands_alone(tmp_path: Path) -> None:
    path = tmp_path / "pallas.log"
    with opened(path, max_bytes=10) as file:
        file.write(b"one")
        file.write(b"x" * 50)
        file.write(b"two")
    assert path.read_bytes() == b"two\n"
    assert (tmp_path / "pallas.log.1").read_bytes() == b"x" * 50 + b"\n"


def test_a_device_is_written_and_never_rotated() -> None:
    with opened(Path("/dev/null"), max_bytes=1) as file:
        for _ in range(10):
            file.write(b"line")


def modes(path: Path) -> list[int]:
    """Of the file and its predecessors, the newest first."""
    files = sorted(path.parent.glob(f"{path.name}*"))
    return [stat.S_IMODE(file.stat().st_mode) for file in files]


def test_nobody_else_may_read_the_file_nor_those_before_it(tmp_path: Path) -> None:
    path = tmp_path / "pallas.log"
    mask = os.umask(0o022)
    try:
        with opened(path, max_bytes=10) as file:
            for _ in range(3):
                file.write(b"123456789")
    finally:
        os.umask(mask)
    assert modes(path) == [0o600] * 3


def test_what_an_older_version_left_readable_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "pallas.log"
    for name in ("pallas.log", "pallas.log.1", "pallas.log.2"):
        (tmp_path / name).write_bytes(b"old\n")
        (tmp_path / name).chmod(0o644)
    with opened(path) as file:
        file.write(b"new")
    assert modes(path) == [0o600] * 3


def test_what_its_owner_has_given_to_a_group_stays_the_groups(tmp_path: Path) -> None:
    path = tmp_path / "pallas.log"
    path.write_bytes(b"old\n")
    path.chmod(0o640)
    with opened(path, max_bytes=10) as file:
        file.write(b"new")
        file.write(b"123456789")
    assert modes(path) == [0o640] * 2


def test_two_supervisors_never_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "state" / "pallas.log"
    first, held = claim(path, "demo")
    second, held_too = claim(path, "other")
    assert first == path
    assert second == path.with_name("pallas-other.log")
    with pytest.raises(BlockingIOError, match="set PALLAS_LOG_FILE"):
        claim(path, "other")
    os.close(held)
    again, held = claim(path, "third")
    assert again == path
    os.close(held)
    os.close(held_too)


def test_who_wants_no_log_file_may_have_none(tmp_path: Path) -> None:
    path = tmp_path / "nothing"
    path.symlink_to(os.devnull)
    claimed, held = claim(path, "demo")
    assert claimed == path
    os.close(held)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("file/pallas.log", "{0}/file: File exists"),
        ("file/below/pallas.log", "{0}/file/below: Not a directory"),
        ("folder", "is no regular file"),
        ("pipe", "is no regular file"),
        ("link", "No such file or directory"),
        ("x" * 300, "File name too long"),
    ],
)
def test_a_file_that_cannot_be_written_is_named_with_the_way_out(
    path: str, reason: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("a file")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("nowhere/at/all")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="the log file") as caught:
        claim(tmp_path / path, "demo")
    assert str(caught.value) == (
        f"the log file {tmp_path / path} cannot be written ({reason.format(tmp_path)}); "
        "set PALLAS_LOG_FILE to a file that this user may write"
    )


@pytest.mark.parametrize("created", [False, True])
def test_a_file_that_somebody_else_has_renamed_is_not_written_any_more(tmp_path: Path, created: bool) -> None:
    path = tmp_path / "pallas.log"
    file = RotatingFile(path, max_bytes=1000, backups=3, look_after=0.0)
    file.write(b"one")
    path.rename(tmp_path / "pallas.log.old")
    if created:
        path.touch(0o640)
    file.write(b"two")
    file.close()
    assert (tmp_path / "pallas.log.old").read_bytes() == b"one\n"
    assert path.read_bytes() == b"two\n"


def test_a_file_that_was_cut_has_room_again(tmp_path: Path) -> None:
    path = tmp_path / "pallas.log"
    file = RotatingFile(path, max_bytes=10, backups=3, look_after=0.0)
    file.write(b"12345678")
    os.truncate(path, 0)
    file.write(b"next")
    file.close()
    assert path.read_bytes() == b"next\n"
    assert not (tmp_path / "pallas.log.1").exists()


def test_one_who_is_told_to_look_does_so_with_the_next_line(tmp_path: Path) -> None:
    path = tmp_path / "pallas.log"
    file = RotatingFile(path, max_bytes=1000, backups=3, look_after=3600.0)
    file.write(b"one")
    path.rename(tmp_path / "pallas.log.old")
    file.look()
    file.write(b"two")
    file.close()
    assert path.read_bytes() == b"two\n"
