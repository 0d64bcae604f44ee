"""Followers of the log: each gets what it wants in order, and all of them together cost one bounded buffer."""

from __future__ import annotations

import asyncio
import logging
import sys

import pytest

from pallas_supervisor.logs.subscribers import MOST_BYTES, MOST_LINES, Subscriber, Tail


def tail_of_numbers() -> Tail:
    """A tail that shows how many lines were lost as a number."""
    return Tail(lambda lost: b"%d" % lost)


async def read(subscriber: Subscriber, count: int) -> list[bytes]:
    return [await subscriber.next() for _ in range(count)]


def test_a_follower_gets_what_it_wants_from_its_beginning_on() -> None:
    async def run() -> None:
        tail = tail_of_numbers()
        tail.append("research", b"nobody follows yet")
        every = tail.subscribe((), logging.NOTSET)
        tail.append("research", b"1")
        one = tail.subscribe(("research",), logging.WARNING)
        tail.append("research", b"2")
        tail.append("jarvis", b"3", logging.ERROR)
        tail.append("research", b"4", logging.ERROR)
        assert await read(every, 4) == [b"1", b"2", b"3", b"4"]
        assert await read(one, 1) == [b"4"]
        waiting = asyncio.create_task(one.next())
        await asyncio.sleep(0)
        tail.append("jarvis", b"5", logging.ERROR)
        tail.append("research", b"6", logging.ERROR)
        assert await waiting == b"6"

    asyncio.run(run())


@pytest.mark.parametrize(("length", "kept"), [(10, MOST_LINES), (MOST_BYTES // 4, 4)], ids=["lines", "bytes"])
def test_a_follower_that_is_too_slow_is_told_how_many_lines_it_has_lost(length: int, kept: int) -> None:
    async def run() -> None:
        tail = tail_of_numbers()
        slow, choosy = tail.subscribe((), logging.NOTSET), tail.subscribe(("jarvis",), logging.WARNING)
        tail.append("jarvis", b"read in time", logging.ERROR)
        assert await read(slow, 1) == await read(choosy, 1) == [b"read in time"]
        for _ in range(3):
            tail.append("jarvis", b"lost", logging.ERROR)
            tail.append("jarvis", b"not wanted", logging.INFO)
        text = b"x" * length
        for _ in range(kept):
            tail.append("research", text)
        assert await read(slow, kept + 1) == [b"6", *[text] * kept]
        assert await read(choosy, 1) == [b"3"]
        tail.append("jarvis", b"after", logging.ERROR)
        assert await read(slow, 1) == await read(choosy, 1) == [b"after"]

    asyncio.run(run())


def test_lines_that_are_not_wanted_are_not_missed() -> None:
    async def run() -> None:
        tail = tail_of_numbers()
        choosy = tail.subscribe(("jarvis",), logging.NOTSET)
        for _ in range(MOST_LINES * 2):
            tail.append("research", b"x")
        tail.append("jarvis", b"y")
        assert await read(choosy, 1) == [b"y"]

    asyncio.run(run())


def test_readers_that_never_read_share_what_they_keep_and_release_it() -> None:
    tail = tail_of_numbers()
    subscribers = [tail.subscribe((), logging.NOTSET) for _ in range(150)]
    for number in range(2_000):
        tail.append("research", b"%d" % number * 2_000)
    kept = sum(sys.getsizeof(line.text) for line in tail.lines)
    assert kept <= MOST_BYTES + len(tail.lines) * 64
    assert all(vars(subscriber).keys() == vars(subscribers[0]).keys() for subscriber in subscribers)
    held = [value for subscriber in subscribers for value in vars(subscriber).values()]
    assert not any(isinstance(value, list | dict | set | bytes) for value in held), "nothing of its own"
    for subscriber in subscribers:
        tail.unsubscribe(subscriber)
    assert not tail.lines
    tail.append("research", b"nobody follows")
    assert not tail.lines
