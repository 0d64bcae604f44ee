"""The journal's protocol: one entry a line however long it is, with fields and a priority; only for a journal."""

from __future__ import annotations

import json
import os
import socket
from typing import TYPE_CHECKING, Any

import pytest

from pallas_common.logs.records import record_line
from pallas_supervisor.logs.journal import Journal, entry, journal_behind
from support.supervisor.processes import nothing_leaked

if TYPE_CHECKING:
    from pathlib import Path


def fields(data: bytes) -> dict[str, str]:
    """An entry, read back as journald does where no value has a line feed."""
    assert data.endswith(b"\n")
    return dict(line.split("=", 1) for line in data.decode().splitlines())


def line(**record: Any) -> bytes:
    return record_line({"level": "INFO", "message": "hello", **record}).rstrip(b"\n")


def test_keys_become_fields_and_the_message_stays_json() -> None:
    sent = line(agent="jarvis", pid=42, generation=3, logger="pallas.worker", conversation_id="c\n1")
    read = fields(entry(sent))
    assert json.loads(read.pop("MESSAGE"))["message"] == "hello"
    assert read == {
        "PRIORITY": "6",
        "SYSLOG_IDENTIFIER": "pallas",
        "PALLAS_AGENT": "jarvis",
        "PALLAS_PID": "42",
        "PALLAS_GENERATION": "3",
        "PALLAS_LOGGER": "pallas.worker",
        "PALLAS_CONVERSATION_ID": "c 1",
    }


@pytest.mark.parametrize(
    ("level", "priority"),
    [("DEBUG", 7), ("INFO", 6), ("WARNING", 4), ("ERROR", 3), ("CRITICAL", 2), ("LOUD", 5), (None, 5)],
)
def test_levels_become_priorities(level: str | None, priority: int) -> None:
    assert fields(entry(line(level=level)))["PRIORITY"] == str(priority)


@pytest.mark.parametrize("text", [b"no json", b"[1]", b"", b"\xff{\n}"])
def test_nothing_breaks_an_entry(text: bytes) -> None:
    data = entry(text)
    assert data.startswith(b"MESSAGE=")
    assert data.count(b"\n") == 3


@pytest.mark.parametrize("length", [10, 60_000, 3_000_000])
def test_a_line_is_one_entry_however_long_it_is(length: int, tmp_path: Path) -> None:
    path = str(tmp_path / "journal")
    with nothing_leaked(), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journald:
        journald.bind(path)
        journal = Journal(path)
        sent = json.dumps({"level": "INFO", "message": "x" * length}).encode()
        assert journal.write(sent)
        data, descriptors, _, _ = socket.recv_fds(journald, 1_000_000, 1)
        for memory in descriptors:
            assert data == b""
            with os.fdopen(memory, "rb") as file:
                file.seek(0)  # journald maps it
                data = file.read()
        assert data == entry(sent)
        assert (len(descriptors) == 1) == (length > 200_000)
        journal.close()


def test_a_journal_that_is_not_there_takes_nothing(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path / "nobody"))
    assert not journal.write(line())
    journal.close()


def test_only_what_the_manager_has_led_to_the_journal_is_the_journal(tmp_path: Path) -> None:
    with (tmp_path / "stderr").open("w") as stderr, nothing_leaked():
        found = os.fstat(stderr.fileno())
        journal = journal_behind(stderr.fileno(), {"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino}"})
        assert journal is not None
        journal.close()
        for stream in (f"{found.st_dev}:{found.st_ino + 1}", "", "nonsense"):
            assert journal_behind(stderr.fileno(), {"JOURNAL_STREAM": stream}) is None
        assert journal_behind(stderr.fileno(), {}) is None
        assert journal_behind(987, {"JOURNAL_STREAM": "1:1"}) is None
