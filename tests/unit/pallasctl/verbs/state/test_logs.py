"""`pallasctl logs`: the query, the text, the stream, and what ends it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from fakes.control_server import FakeControl, serve

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RECORDS = [
    {
        "time": "2026-01-31T12:00:00.123456+00:00",
        "level": "INFO",
        "logger": "pallas.engine",
        "message": "ready",
        "pid": 7,
        "port": 24201,
        "why": "a b",
        "span_id": None,
        "data": {},
    },
    {
        "time": "2026-01-31T12:00:01Z",
        "level": "error",
        "agent": "research",
        "message": "no\x1b[2J",
        "exception": "Traceback\nKeyError",
    },
]
FIRST = '2026-01-31 12:00:00.123 INFO    pallas: ready port=24201 why="a b"'
LINES = b"".join(json.dumps(record).encode() + b"\n" for record in RECORDS)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeControl]:
    monkeypatch.setenv("TZ", "UTC")
    with serve(tmp_path / "control.sock") as server:
        server.answer("/v1/logs", LINES)
        yield server


def test_text(fake: FakeControl) -> None:
    result = fake.run("logs")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        FIRST,
        "2026-01-31 12:00:01.000 ERROR   research: no\\x1b[2J",
        "    Traceback",
        "    KeyError",
    ]


def test_nothing_is_said_twice(fake: FakeControl) -> None:
    record = {
        "time": "2026-01-31T12:00:00Z",
        "level": "INFO",
        "agent": "dates",
        "message": "dates: starting -> ready",
        "state": "ready",
        "previous": "starting",
        "port": 24201,
        "duration": 1.5,
    }
    ended = {
        **record,
        "message": "chat: ok after 1.5 s; tools a ×2, b",
        "tools": {"a": 2, "b": 1},
        "port": None,
    }
    fake.answer("/v1/logs", b"".join(json.dumps(each).encode() + b"\n" for each in (record, ended)))
    assert fake.run("logs").stdout.splitlines() == [
        "2026-01-31 12:00:00.000 INFO    dates: starting -> ready port=24201 duration=1.5",
        "2026-01-31 12:00:00.000 INFO    dates: chat: ok after 1.5 s; tools a ×2, b state=ready previous=starting",
    ]


def test_json_passes_the_lines_on(fake: FakeControl) -> None:
    assert fake.run("logs", "-o", "json").stdout_bytes == LINES


def test_a_line_that_is_no_record_is_shown_as_it_is(fake: FakeControl) -> None:
    fake.answer("/v1/logs", b"plain\x1b text\n[1]\n")
    assert fake.run("logs").stdout == "plain\\x1b text\n[1]\n"


@pytest.mark.parametrize(
    ("arguments", "query"),
    [
        ([], {}),
        (["research", "jarvis", "-n", "5"], {"agent": ["research", "jarvis"], "n": ["5"]}),
        (["--level", "warn"], {"level": ["WARNING"]}),
        (["--since", "10m"], {"since": ["600"]}),
        (["--since", "1h30m", "-n", "3"], {"since": ["5400"], "n": ["3"]}),
        (["--since", "2026-01-31T12:00"], {"since": ["2026-01-31T12:00:00+00:00"]}),
        (
            ["--since", "2026-01-31T12:00:00+02:00"],
            {"since": ["2026-01-31T10:00:00+00:00"]},
        ),
    ],
)
def test_query(fake: FakeControl, arguments: list[str], query: dict[str, list[str]]) -> None:
    assert fake.run("logs", *arguments).exit_code == 0
    assert fake.requests == [("GET", "/v1/logs", query)]


@pytest.mark.parametrize("since", ["", "soon", "10 minutes", "-5m"])
def test_wrong_since(fake: FakeControl, since: str) -> None:
    result = fake.run("logs", f"--since={since}")
    assert result.exit_code == 2
    assert "like 90s, 10m or 2h" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--level", "loud"], "`loud` is not a log level; use one of DEBUG, INFO, WARNING, ERROR, CRITICAL"),
        (["--grep", "(a"], "`(a` is not a regular expression of Python: missing ), unterminated subpattern"),
    ],
)
def test_what_cannot_be_searched_for_is_refused_before_anybody_is_asked(
    fake: FakeControl, arguments: list[str], says: str
) -> None:
    result = fake.run("logs", *arguments)
    assert result.exit_code == 2
    assert says in result.stderr
    assert fake.requests == []


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["--grep", "^n.+J$"], [1]),
        (["--grep", "a b"], [0]),
        (["--grep", "engine|KeyError"], [0, 1]),
        (["--grep", "engine|KeyError", "-n", "1"], [1]),
        (["--grep", "engine", "-n", "0"], []),
        (["--grep", "2026|24201|port"], []),
    ],
    ids=["message", "field", "logger and traceback", "newest", "none", "neither times nor numbers nor names"],
)
def test_grep_looks_at_the_texts_of_records_and_counts_what_it_finds(
    fake: FakeControl, arguments: list[str], shown: list[int]
) -> None:
    result = fake.run("logs", "-o", "json", *arguments)
    assert [json.loads(line) for line in result.stdout.splitlines()] == [RECORDS[number] for number in shown]
    ((_, _, query),) = fake.requests
    assert int(query["n"][0]) > 1_000_000


def test_grep_follows_on_after_the_empty_line_that_ends_the_old_records(fake: FakeControl) -> None:
    lines = LINES.splitlines(keepends=True)
    fake.answer("/v1/logs", lines[0] * 3 + b"\n" + lines[1] + lines[0] * 2)
    fake.released.set()
    result = fake.run("logs", "-f", "-n", "1", "--grep", "ready")
    assert result.stdout.splitlines() == [FIRST] * 3


def test_the_empty_line_is_not_shown(fake: FakeControl) -> None:
    fake.answer("/v1/logs", b"\n" + LINES)
    assert fake.run("logs", "-o", "json").stdout_bytes == LINES


def test_unknown_agent(fake: FakeControl) -> None:
    fake.answer("/v1/logs", {"error": "there is no agent 'x'; the agents are: a"}, 404)
    result = fake.run("logs", "x")
    assert (result.exit_code, result.stderr) == (2, "pallasctl: there is no agent 'x'; the agents are: a\n")


def follow(fake: FakeControl) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "pallasctl", "--socket", str(fake.socket), "logs", "-f"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_following_shows_records_at_once_and_ends_with_ctrl_c(fake: FakeControl) -> None:
    with follow(fake) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == FIRST + "\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "")


def test_following_ends_when_the_supervisor_does(fake: FakeControl) -> None:
    with follow(fake) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        fake.released.set()
        # Not communicate(): it reads beside the buffer that readline() may have filled with more than one line.
        output, errors = process.stdout.read(), process.stderr.read()
        status = process.wait(60)
    assert (status, errors) == (0, "")
    assert "KeyError" in output


def test_a_reader_that_goes_away_is_no_error(fake: FakeControl) -> None:
    fake.answer("/v1/logs", LINES * 5000)
    command = f"{sys.executable} -m pallasctl --socket {fake.socket} logs | head -1"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120, check=False)
    assert result.stdout == FIRST + "\n"
    assert result.stderr == ""
