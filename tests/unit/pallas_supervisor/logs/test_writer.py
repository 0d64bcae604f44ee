"""The one writer of the log file: rotation, full disks, floods. A real file and a real thread."""

from __future__ import annotations

import io
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pallas_supervisor.logs import writer as logfile
from pallas_supervisor.logs.writer import LogWriter
from support.supervisor.processes import PATIENCE, nothing_leaked

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    with nothing_leaked():
        yield


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last lines may take as long as the machine does."""
    monkeypatch.setattr(logfile, "CLOSE_TIMEOUT", PATIENCE)


def test_lines_are_written_whole_and_in_order(tmp_path: Path) -> None:
    path = tmp_path / "pallas.log"
    writer = LogWriter(path, stderr=False)
    for number in range(1_000):
        writer.put(f'{{"number": {number}, "text": "grüß"}}'.encode())
    writer.put(b"\xff")
    writer.close()
    *lines, last = path.read_text().splitlines()
    assert lines == [f'{{"number": {number}, "text": "grüß"}}' for number in range(1_000)]
    assert last == "�"
    assert writer.lost == 0


def test_the_file_rotates_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logfile, "MAX_BYTES", 10_000)
    monkeypatch.setattr(logfile, "BACKUPS", 5)
    path = tmp_path / "pallas.log"
    writer = LogWriter(path, stderr=False)
    for number in range(400):
        writer.put(f"{number:099d}".encode())
    writer.close()
    files = [path, *(tmp_path / f"pallas.log.{number}" for number in range(1, 6))]
    assert all(file.stat().st_size <= 10_000 for file in files if file.exists())
    lines = [line for file in reversed(files) if file.exists() for line in file.read_text().splitlines()]
    assert lines == [f"{number:099d}" for number in range(400)]


def test_stderr_beside_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "__stderr__", stderr)
    writer = LogWriter(tmp_path / "pallas.log", stderr=True)
    writer.put(b"for journald")
    writer.close()
    assert stderr.getvalue() == "for journald\n"
    assert writer.lost == 0


def test_a_stderr_that_is_gone_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = io.StringIO()
    stderr.close()
    monkeypatch.setattr(sys, "__stderr__", stderr)
    writer = LogWriter(tmp_path / "pallas.log", stderr=True)
    writer.put(b"one")
    writer.put(b"two")
    writer.close()
    assert (tmp_path / "pallas.log").read_text() == "one\ntwo\n"


def test_lines_that_cannot_be_written_are_counted_and_it_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    writer = LogWriter(folder / "pallas.log", stderr=False)
    for _ in range(3):
        writer.put(b"lost")
    while writer.lost < 3:
        threading.Event().wait(0.001)
    folder.mkdir()
    writer.put(b"kept")
    writer.close()
    assert writer.lost == 3
    assert (folder / "pallas.log").read_text() == "kept\n"


def test_a_full_disk_costs_lines_and_nothing_else() -> None:
    writer = LogWriter(Path("/dev/full"), stderr=False)
    for _ in range(1_000):
        writer.put(b"x" * 1_000)
    writer.close()
    assert writer.lost == 1_000


def test_an_outage_is_told_once_when_it_begins_and_once_when_it_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(logfile, "OUTAGE_OVER", 0.0)
    folder = tmp_path / "gone"
    path = folder / "pallas.log"
    writer = LogWriter(path, stderr=False)
    for _ in range(3):
        writer.put(b"lost")
    while writer.lost < 3:
        threading.Event().wait(0.001)
    folder.mkdir()
    writer.put(b"kept")
    writer.put(b"kept")
    writer.close()
    assert caplog.messages == [
        f"{path} cannot be written, log lines are lost: No such file or directory",
        f"{path} can be written again; 3 lines are missing",
    ]


def test_a_short_line_between_failures_does_not_end_an_outage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What is told becomes lines itself: on a disk that still takes some of them that would go on for ever."""
    monkeypatch.setattr(logfile, "OUTAGE_OVER", 60.0)
    writer = LogWriter(tmp_path / "pallas.log", stderr=False)
    real = writer._file.write

    def half_full(line: bytes) -> None:
        if len(line) > 10:
            raise OSError(28, "No space left on device")
        real(line)

    monkeypatch.setattr(writer._file, "write", half_full)
    for _ in range(100):
        writer.put(b"long" * 10)
        writer.put(b"short")
    writer.close()
    assert writer.lost == 100
    assert len(caplog.messages) == 1


class Stuck(io.StringIO):
    """A terminal that takes nothing until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.entered = threading.Event()
        self.held = threading.Event()

    def write(self, _text: str) -> int:
        self.entered.set()
        self.held.wait(PATIENCE)
        return 0


def test_a_stderr_that_hangs_does_not_hold_up_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = Stuck()
    monkeypatch.setattr(sys, "__stderr__", stuck)
    monkeypatch.setattr(logfile, "QUEUE_BYTES", 100_000)
    writer = LogWriter(tmp_path / "pallas.log", stderr=True)
    writer.put(b"first")
    assert stuck.entered.wait(PATIENCE)
    for number in range(1, 500):
        writer.put(b"x" * 900)
        until_lines(tmp_path / "pallas.log", 1 + number if number % 50 == 0 else 0)
    stuck.held.set()
    writer.close()
    assert writer.lost == 0
    assert len((tmp_path / "pallas.log").read_text().splitlines()) == 500


def until_lines(path: Path, count: int) -> None:
    """Wait until the file has so many lines."""
    deadline = time.monotonic() + PATIENCE
    while count and (not path.exists() or path.read_bytes().count(b"\n") < count):
        assert time.monotonic() < deadline
        time.sleep(0.001)  # another thread's file: nothing tells


def test_close_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = Stuck()
    monkeypatch.setattr(sys, "__stderr__", stuck)
    monkeypatch.setattr(logfile, "CLOSE_TIMEOUT", 0.01)
    writer = LogWriter(tmp_path / "pallas.log", stderr=True)
    writer.put(b"stuck")
    writer.close()
    [thread] = [thread for thread in threading.enumerate() if thread.name == "log-stderr"]
    stuck.held.set()
    thread.join(PATIENCE)
    assert not thread.is_alive()
