"""Whose turn a shared probe is, who hears of it, and what a worker that does not read costs."""

from __future__ import annotations

import os
import select
from dataclasses import replace

import pytest

from pallas_common.problems import ConfigurationError
from pallas_common.protocol.notices import (
    LONGEST_ERROR,
    MOST_TARGETS,
    Notice,
    ProbeResult,
    decode_notice,
    encode_notice,
    probe_interval,
    target_name,
)
from pallas_common.protocol.reports import ProbedReport, WatchReport, decode_report, encode_report
from pallas_supervisor.health.shared_probes import SharedProbes
from pallas_supervisor.lifecycle.states import WorkerId
from pallas_supervisor.processes.pipes.notices import NoticePipes

ONE, TWO, THREE = WorkerId("one", 1), WorkerId("two", 1), WorkerId("three", 4)


def result(target: str = "library", up: bool = True, at: float = 1.0) -> ProbeResult:
    error = None if up else "cannot connect"
    return ProbeResult(target=target, up=up, latency=0.01, at=at, checked="2026-03-12T12:00:00Z", error=error)


class Told(list[tuple[str, Notice]]):
    """What each worker was told, as `(agent, notice)`."""

    def __init__(self) -> None:
        self.shared = SharedProbes(lambda worker_id, notice: self.append((worker_id.name, notice)))

    def taken(self) -> list[tuple[str, Notice]]:
        """What was told since the last time."""
        news, self[:] = list(self), []
        return news


def test_one_worker_probes_and_the_others_hear_of_it() -> None:
    told = Told()
    told.shared.watch(ONE, ["library", "archive"])
    assert told.taken() == [("one", Notice(turns=("library", "archive")))]
    told.shared.watch(TWO, ["library"])
    assert told.taken() == [], "nothing is known yet, and somebody is at it"
    told.shared.take(ONE, [result(), result("archive")])
    assert told.taken() == [("two", Notice(results=(result(),)))]
    told.shared.watch(THREE, ["library", "archive"])
    assert told.taken() == [("three", Notice(results=(result(), result("archive"))))]


def test_the_turn_of_a_worker_that_goes_is_anothers() -> None:
    told = Told()
    for worker in (ONE, TWO, THREE):
        told.shared.watch(worker, ["library"])
    told.taken()
    told.shared.leave(TWO)
    assert told.taken() == [], "it was not its turn"
    told.shared.leave(ONE)
    assert told.taken() == [("three", Notice(turns=("library",)))]
    told.shared.leave(THREE)
    told.shared.watch(ONE, ["library"])
    assert told.taken() == [("one", Notice(turns=("library",)))], (
        "what was found is forgotten with the last watcher"
    )


def test_whoever_probes_because_nobody_was_heard_has_the_turn() -> None:
    told = Told()
    for worker in (ONE, TWO, THREE):
        told.shared.watch(worker, ["library"])
    told.shared.take(ONE, [result()])
    told.taken()
    found = result(up=False, at=30.0)
    told.shared.take(TWO, [found])
    assert told.taken() == [
        ("one", Notice(results=(found,))),
        ("three", Notice(results=(found,))),
        ("two", Notice(turns=("library",))),
    ]
    told.shared.leave(ONE)
    assert told.taken() == [], "the turn was not its own any more"


def test_what_nobody_watches_is_not_passed_on() -> None:
    told = Told()
    told.shared.watch(ONE, ["library"])
    told.taken()
    told.shared.take(TWO, [result()])
    told.shared.take(ONE, [result("archive")])
    told.shared.watch(TWO, [])
    assert told.taken() == []


def test_what_is_said_of_shared_probes_survives_the_way() -> None:
    notice = Notice(results=(result(), result(up=False)), turns=("library",))
    assert decode_notice(encode_notice(notice)) == notice
    for report in (WatchReport(targets=("library",)), ProbedReport(results=(result(), result(up=False)))):
        assert decode_report(encode_report(report)) == report
    for line in (b"{}", b"[]", b"nonsense", b'{"results": [{}], "turns": []}'):
        with pytest.raises(ValueError, match=r"."):
            decode_notice(line)


def test_names_of_targets_tell_nothing_and_depend_on_every_part() -> None:
    parts = ("downstream", "http", "http://library/mcp", [("authorization", "Bearer s3cret")])
    name = target_name("key", *parts)
    assert name == target_name("key", *parts)
    assert "s3cret" not in name
    assert name != target_name("another key", *parts)
    assert name != target_name("key", *parts[:3], [("authorization", "Bearer other")])


def test_a_worker_that_does_not_read_loses_notices_and_holds_nobody_up() -> None:
    pipes = NoticePipes()
    reader = pipes.open(ONE)
    try:
        assert not os.get_inheritable(reader)
        longest = replace(result(up=False), error="x" * LONGEST_ERROR)
        notice = Notice(results=(longest,) * 12, turns=("library",) * 12)
        for _ in range(100):
            pipes.send(ONE, notice)
        read = b""
        while len(chunk := os.read(reader, 1 << 16)) == 1 << 16:
            read += chunk
        read += chunk
        assert read.endswith(b"\n")
        for line in read.splitlines():
            decode_notice(line)
            assert len(line) < 4096, "a pipe takes it whole or not at all"
        pipes.send(ONE, Notice(turns=("library",)))
        assert decode_notice(os.read(reader, 4096)) == Notice(turns=("library",))
    finally:
        os.close(reader)
    pipes.send(ONE, notice)
    pipes.close(ONE)
    pipes.send(ONE, notice)
    pipes.close(ONE)


def test_the_interval_is_15_seconds_or_what_the_variable_says() -> None:
    assert probe_interval({}) == probe_interval({"PALLAS_PROBE_INTERVAL": ""}) == 15.0
    assert probe_interval({"PALLAS_PROBE_INTERVAL": "2.5"}) == 2.5
    for wrong in ("often", "0", "nan", "-1", "1e9"):
        with pytest.raises(ConfigurationError) as raised:
            probe_interval({"PALLAS_PROBE_INTERVAL": wrong})
        assert "PALLAS_PROBE_INTERVAL" in str(raised.value.problems[0])


def test_a_worker_can_neither_fill_the_memory_nor_tear_the_notices_of_others() -> None:
    told = Told()
    told.shared.watch(ONE, ["x" * 100, *map(str, range(5_000))])
    told.shared.watch(ONE, map(str, range(5_000, 10_000)))
    assert len(told.shared._targets) == MOST_TARGETS
    told.shared.watch(TWO, ["1"])
    told.taken()
    told.shared.take(ONE, [replace(result("1"), error="\U0001f600" * 50_000, checked="x" * 50_000)])
    [(_, notice)] = told.taken()
    assert len(encode_notice(notice)) < select.PIPE_BUF
    told.shared.leave(ONE)
    assert set(told.shared._targets) == {"1"}


def test_a_notice_that_a_pipe_would_take_in_part_is_not_sent() -> None:
    pipes = NoticePipes()
    reader = pipes.open(ONE)
    try:
        pipes.send(ONE, Notice(results=(result("x" * 5_000),), turns=("library",)))
        assert decode_notice(os.read(reader, 1 << 16)) == Notice(turns=("library",))
    finally:
        os.close(reader)
        pipes.close(ONE)
