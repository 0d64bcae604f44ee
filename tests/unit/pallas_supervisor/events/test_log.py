"""The event log: numbered without gaps, resumed without loss, bounded whoever reads, and never a silent gap."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest

from pallas_common.secrets.values import KnownSecrets
from pallas_supervisor.events.log import (
    LONGEST_TEXT,
    MOST_BYTES,
    MOST_EVENTS,
    EventLog,
    Position,
    Reader,
    Selection,
    new_epoch,
)

EVERYTHING = 1 << 30


def parsed(text: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def rest(reader: Reader) -> list[dict[str, Any]]:
    """All that is there for it."""
    return parsed(reader.take(EVERYTHING))


def numbers(reader: Reader) -> list[int]:
    return [event["seq"] for event in rest(reader)]


def log_of(count: int) -> EventLog:
    log = EventLog(epoch="this")
    for number in range(count):
        log.add("agent", "library" if number % 2 else "research", "state", number=number)
    return log


def test_an_event_says_what_every_event_says_and_more() -> None:
    log = EventLog()
    log.add("agent", "research", "state", state="ready", pid=None)
    (event,) = rest(log.newest(10))
    assert list(event) == ["epoch", "seq", "time", "kind", "name", "event", "state", "pid"]
    assert (event["epoch"], event["seq"], event["state"]) == (log.epoch, 1, "ready")
    assert log.position == Position(log.epoch, 1)


def test_lives_have_different_names_that_sort() -> None:
    epochs = [new_epoch() for _ in range(50)]
    assert len(set(epochs)) == 50
    assert [epoch[:12] for epoch in epochs] == sorted(epoch[:12] for epoch in epochs)


@pytest.mark.parametrize("count", [0, 1, 3, 100])
def test_the_newest(count: int) -> None:
    assert numbers(log_of(6).newest(count)) == list(range(7 - min(count, 6), 7))


def test_the_newest_of_those_that_are_wanted() -> None:
    log = log_of(6)
    log.add("configuration", "demo", "reloaded")
    assert numbers(log.newest(2, Selection(names=frozenset(["research"])))) == [3, 5]
    assert numbers(log.newest(2, Selection(kinds=frozenset(["configuration"])))) == [7]
    assert numbers(log.newest(2, Selection(frozenset(["agent", "configuration"]), frozenset(["demo"])))) == [
        7
    ]


@pytest.mark.parametrize("seq", range(7))
def test_reading_goes_on_after_any_position(seq: int) -> None:
    assert numbers(log_of(6).after(Position("this", seq))) == list(range(seq + 1, 7))


def test_a_position_that_is_not_there_yet_is_refused() -> None:
    with pytest.raises(ValueError, match="no event 7 yet; the newest is 6"):
        log_of(6).after(Position("this", 7))


def test_a_position_of_another_life_is_answered_with_a_gap_and_all_of_this_one() -> None:
    gap, *events = rest(log_of(2).after(Position("that", 2)))
    assert (gap["kind"], gap["event"], gap["epoch"], gap["seq"]) == ("gap", "restarted", "this", 0)
    assert [event["seq"] for event in events] == [1, 2]


def test_what_is_not_kept_any_more_is_told_and_can_be_read_on_from() -> None:
    log = log_of(MOST_EVENTS + 5)
    gap, *events = rest(log.after(Position("this", 2), Selection(names=frozenset(["nobody"]))))
    assert (gap["kind"], gap["event"], gap["seq"], gap["missed"]) == ("gap", "lost", 5, 3)
    assert not events
    assert numbers(log.after(Position("this", gap["seq"])))[:2] == [6, 7]
    assert numbers(log.after(Position("this", 5)))[0] == 6, "nothing was missed"


def test_a_reader_that_does_not_read_gets_a_gap_and_then_what_is_there() -> None:
    log = log_of(1)
    slow = log.newest(1)
    log.follow(slow)
    for _ in range(MOST_EVENTS + 9):
        log.add("agent", "research", "state")
    gap, *events = rest(slow)
    assert (gap["event"], gap["missed"]) == ("lost", 10)
    assert [event["seq"] for event in events] == list(range(11, MOST_EVENTS + 11))
    assert not rest(slow)


def test_pieces_are_small_and_together_all() -> None:
    reader = log_of(50).newest(50)
    pieces = [reader.take(400, until=40) for _ in range(50)]
    assert all(len(piece) < 600 for piece in pieces)
    assert [event["seq"] for piece in pieces for event in parsed(piece)] == list(range(1, 41))
    assert numbers(reader) == list(range(41, 51))


def test_a_reader_wakes_for_what_it_wants() -> None:
    async def run() -> None:
        log = log_of(2)
        reader = log.newest(0, Selection(names=frozenset(["library"])))
        log.follow(reader)
        assert not await reader.wait(0.0), "nothing has come"
        waiting = asyncio.create_task(reader.wait(60.0))
        await asyncio.sleep(0)
        log.add("agent", "research", "state")
        for _ in range(3):
            await asyncio.sleep(0)
        assert not waiting.done()
        log.add("agent", "library", "state")
        assert await waiting
        assert numbers(reader) == [4]

    asyncio.run(run())


def test_a_reader_that_wants_little_misses_nothing_however_much_else_happens() -> None:
    async def run() -> None:
        log = log_of(0)
        reader = log.newest(0, Selection(names=frozenset(["library"])))
        log.follow(reader)
        found: list[dict[str, Any]] = []

        async def read() -> None:
            while not found:
                await reader.wait(60.0)
                found.extend(rest(reader))

        reading = asyncio.create_task(read())
        for _ in range(8 * MOST_EVENTS):
            log.add("agent", "research", "state")
            if log.position.seq % 100 == 0:
                await asyncio.sleep(0)
        log.add("agent", "library", "state")
        await reading
        assert [event["kind"] for event in found] == ["agent"]

    asyncio.run(run())


def test_the_end_comes_after_all_that_there_was() -> None:
    async def run() -> None:
        log = log_of(2)
        reader = log.newest(2)
        log.follow(reader)
        waiting = asyncio.create_task(reader.wait(60.0))
        log.add("supervisor", "demo", "stopped")
        log.close()
        assert await waiting
        ends = [reader.at_end]
        assert numbers(reader) == [1, 2, 3]
        assert [*ends, reader.at_end] == [False, True]
        assert await reader.wait(60.0)

    asyncio.run(run())


def test_readers_that_never_read_share_what_is_kept() -> None:
    log = EventLog()
    readers = [log.newest(0) for _ in range(150)]
    for reader in readers:
        log.follow(reader)
    for number in range(10_000):
        log.add("agent", "research", "state", message=f"{number} " * 300)
    kept = [event.line for event in log._ring]
    assert len(kept) <= MOST_EVENTS
    assert sum(map(sys.getsizeof, kept)) <= MOST_BYTES + 64 * len(kept)
    held = [value for reader in readers for value in vars(reader).values()]
    assert not any(isinstance(value, list | dict | set | bytes) for value in held), "nothing of its own"
    for reader in readers:
        log.leave(reader)
    assert log.readers == 0


def test_no_event_shows_a_secret_and_none_is_long() -> None:
    log = EventLog(KnownSecrets(["hunter2hunter2"]))
    log.add("agent", "research", "state", message="x" * (LONGEST_TEXT - 8) + "hunter2hunter2" + "y" * 9_000)
    log.add("agent", "research", "state", message="key hunter2hunter2", names=["hunter2hunter2"])
    text = log.newest(2).take(EVERYTHING)
    assert b"hunter2" not in text
    assert len(text) < 2 * LONGEST_TEXT
    assert all(event["name"] == "research" for event in parsed(text))


def test_what_an_event_says_never_breaks_a_line() -> None:
    log = EventLog()
    log.add("agent", "research", "state", message="a\nb\u2028\ud800\x1b[2J")
    assert log.newest(1).take(EVERYTHING).count(b"\n") == 1
