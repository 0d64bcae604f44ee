"""`pallasctl events`: the query, the lines, and what it does while the supervisor is gone."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from fakes.control_server import FakeControl, agent, serve, status

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def event(seq: int, kind: str, name: str, what: str, *, epoch: str = "this", **more: Any) -> dict[str, Any]:
    stamp = f"2026-01-31T12:00:0{seq % 10}.123456Z"
    return {"epoch": epoch, "seq": seq, "time": stamp, "kind": kind, "name": name, "event": what, **more}


def lines(*events: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in events)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeControl]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    with serve(tmp_path / "control.sock") as server:
        server.answer("/v1/status", status(agent("library"), agent("research")))
        yield server


@pytest.mark.parametrize(
    ("happened", "said"),
    [
        (
            event(
                1,
                "agent",
                "research",
                "state",
                state="backoff",
                previous="killing",
                message="restarting in 2 s",
            ),
            "research  killing -> backoff: restarting in 2 s",
        ),
        (
            event(
                1,
                "agent",
                "research",
                "state",
                state="ready",
                previous="ready",
                generation=2,
                pid=7,
                message="",
            ),
            "research  ready [generation 2, pid 7]",
        ),
        (
            event(1, "agent", "research", "health", health="degraded", previous="ok", message="a\x1b[2J\nb"),
            "research  health ok -> degraded: a\\x1b[2J b",
        ),
        (event(1, "agent", "research", "restart", reason="crash"), "research  restart (crash)"),
        (
            event(
                1,
                "agent",
                "research",
                "replacement",
                replacement="draining",
                generation=1,
                pid=6,
                message="x",
            ),
            "research  second worker draining [generation 1, pid 6]",
        ),
        (event(1, "agent", "research", "removed"), "research  removed by a reload"),
        (
            event(1, "configuration", "demo", "reloaded", added=["a", "b"], removed=[], changed=["c"]),
            "demo  configuration reloaded: added a, b; changed c",
        ),
        (
            event(1, "configuration", "demo", "reloaded", added=[], removed=[], changed=[]),
            "demo  configuration reloaded: no agent changed",
        ),
        (
            event(1, "supervisor", "demo", "started", version="0.4.0", pid=99),
            "demo  supervisor started: pallas 0.4.0, pid 99",
        ),
        (event(1, "supervisor", "demo", "stopping"), "demo  supervisor stopping"),
        (event(1, "gap", "", "lost", message="3 events are not kept"), "  3 events are not kept"),
        (
            event(1, "llm", "big", "new\x1b", message="of a later version"),
            "big  llm new\\x1b: of a later version",
        ),
    ],
)
def test_text(fake: FakeControl, happened: dict[str, Any], said: str) -> None:
    fake.answer("/v1/events", b"\n" + lines(happened))
    result = fake.run("events")
    assert (result.exit_code, result.stdout) == (0, f"2026-01-31 12:00:01.123 {said}\n")


def test_what_is_no_event_is_left_out(fake: FakeControl) -> None:
    fake.answer("/v1/events", b'no json\n[]\n{"seq": 1}\n' + lines(event(2, "agent", "library", "added")))
    assert fake.run("events").stdout.splitlines() == ["2026-01-31 12:00:02.123 library  added by a reload"]


def test_json_passes_on_what_comes(fake: FakeControl) -> None:
    happened = [event(1, "agent", "library", "added"), event(2, "llm", "big", "new", more={"a": [1]})]
    fake.answer("/v1/events", lines(*happened))
    assert [json.loads(line) for line in fake.run("events", "-o", "json").stdout.splitlines()] == happened


def test_the_query(fake: FakeControl) -> None:
    fake.answer("/v1/events", b"")
    assert fake.run("events", "research", "demo", "--kind", "agent", "-n", "7").exit_code == 0
    assert fake.requests[-1] == (
        "GET",
        "/v1/events",
        {"name": ["research", "demo"], "kind": ["agent"], "n": ["7"]},
    )


def test_a_mistyped_name(fake: FakeControl) -> None:
    result = fake.run("events", "reserch")
    assert (result.exit_code, result.stderr) == (
        2,
        "pallasctl: there is no agent 'reserch'; did you mean 'research'?\n",
    )


def test_without_a_supervisor(tmp_path: Path, fake: FakeControl) -> None:
    missing = FakeControl(tmp_path / "nothing.sock", {})
    result = missing.run("events", "-f")
    assert result.exit_code == 1
    assert "pallas is not running here" in result.stderr


def test_following_goes_on_where_it_was_when_the_supervisor_comes_back(fake: FakeControl) -> None:
    fake.released.set()  # the answer ends at once, as where the supervisor stops
    fake.answer(
        "/v1/events", lines(event(6, "agent", "library", "added"), event(7, "supervisor", "demo", "stopped"))
    )
    command = [sys.executable, "-m", "pallasctl", "--socket", str(fake.socket), "events", "-f", "-n", "2"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().endswith("library  added by a reload\n")
        assert process.stdout.readline().endswith("demo  supervisor stopped\n")
        assert process.stderr.readline() == (
            f"pallasctl: nobody answers on {fake.socket} any more; waiting for the supervisor to be started\n"
        )
        fake.answer("/v1/events", lines(event(1, "agent", "library", "changed", epoch="that")))
        assert process.stdout.readline().endswith("library  changed by a reload\n")
        queries = [query for _, path, query in fake.requests if path == "/v1/events"]
        assert queries[0] == {"n": ["2"], "follow": ["1"]}
        assert queries[1] == {"epoch": ["this"], "seq": ["7"], "follow": ["1"]}
    finally:
        process.kill()
        process.communicate()
