"""Calls that wait for their turn: order, bounds, refusals, and callers that go away."""

from __future__ import annotations

import asyncio
import contextlib
import logging

import pytest

from pallas_worker.calls import admission
from pallas_worker.calls.admission import Admission
from pallas_worker.interface.errors import BusyError


class Hall:
    """An admission whose calls end when they are told to."""

    def __init__(self, running: int, waiting: int) -> None:
        self.seen: list[tuple[int, int]] = []
        self.now = 0.0
        self.admission = Admission(
            running, waiting, lambda *counts: self.seen.append(counts), lambda: self.now
        )
        self.begun: list[str] = []
        self.ends: dict[str, asyncio.Event] = {}

    async def call(self, name: str) -> None:
        async with self.admission.place():
            self.begun.append(name)
            await self.ends.setdefault(name, asyncio.Event()).wait()

    async def come(self, *names: str) -> dict[str, asyncio.Task[None]]:
        tasks = {name: asyncio.create_task(self.call(name)) for name in names}
        await settle()
        return tasks

    async def end(self, name: str) -> None:
        self.ends[name].set()
        await settle()

    @property
    def counts(self) -> tuple[int, int]:
        return self.seen[-1]


async def settle() -> None:
    """Let every task go as far as it can by itself."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_so_many_run_and_the_others_follow_in_order() -> None:
    async def run() -> None:
        hall = Hall(2, 9)
        assert hall.seen == [(0, 0)]
        await hall.come("a", "b", "c", "d")
        assert (hall.begun, hall.counts) == (["a", "b"], (2, 2))
        await hall.end("b")
        assert (hall.begun, hall.counts) == (["a", "b", "c"], (2, 1))
        await hall.end("a")
        await hall.end("c")
        await hall.end("d")
        assert (hall.begun, hall.counts) == (["a", "b", "c", "d"], (0, 0))
        assert all(running <= 2 for running, _ in hall.seen)

    asyncio.run(run())


def test_one_that_comes_while_others_wait_does_not_overtake() -> None:
    async def run() -> None:
        hall = Hall(1, 9)
        await hall.come("a", "b")
        hall.ends["a"].set()
        await hall.come("c")  # a's place is b's, though b has not taken it yet
        assert hall.begun == ["a", "b"]
        await hall.end("b")
        assert hall.begun == ["a", "b", "c"]

    asyncio.run(run())


def test_one_too_many_is_refused_at_once_and_told_how_long() -> None:
    async def run() -> None:
        hall = Hall(2, 1)
        await hall.come("a", "b", "c")
        with pytest.raises(BusyError, match=r"2 of 2 calls run, 1 of 1 wait; .* no call has ended yet"):
            await hall.call("d")
        hall.now = 30.0
        await hall.end("a")
        await hall.come("d")
        # Two places, one that waits, 30 s a call: the next turn is (1 + 1) × 30 / 2 away.
        with pytest.raises(BusyError, match="try again in about 30 s"):
            await hall.call("e")
        assert hall.counts == (2, 1)
        assert hall.begun == ["a", "b", "c"]

    asyncio.run(run())


def test_without_a_queue_nobody_waits() -> None:
    async def run() -> None:
        hall = Hall(1, 0)
        await hall.come("a")
        with pytest.raises(BusyError, match="1 of 1 calls run, 0 of 0 wait"):
            await hall.call("b")
        await hall.end("a")
        await hall.come("c")
        assert hall.begun == ["a", "c"]

    asyncio.run(run())


@pytest.mark.parametrize("woken", [False, True], ids=["in-line", "at-its-turn"])
def test_a_waiting_caller_that_goes_away_leaves_the_queue(woken: bool) -> None:
    async def run() -> None:
        hall = Hall(1, 2)
        tasks = await hall.come("a", "b", "c")
        if woken:
            hall.ends["a"].set()  # b is given the place, and cancelled before it can take it
            await asyncio.sleep(0)
        tasks["b"].cancel()
        await settle()
        assert hall.counts == ((1, 0) if woken else (1, 1))
        await hall.end("a")
        assert hall.begun == ["a", "c"]
        await hall.end("c")
        assert hall.counts == (0, 0)

    asyncio.run(run())


def test_a_call_that_fails_gives_its_place_back() -> None:
    async def run() -> None:
        hall = Hall(1, 0)
        for _ in range(3):
            with contextlib.suppress(ZeroDivisionError):
                async with hall.admission.place():
                    raise ZeroDivisionError
        await hall.come("a")
        assert (hall.begun, hall.counts) == (["a"], (1, 0))

    asyncio.run(run())


def test_a_busy_time_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        hall = Hall(1, 1)
        for first, second in (("a", "b"), ("c", "d")):
            await hall.come(first, second)
            for _ in range(3):
                with pytest.raises(BusyError):
                    await hall.call("x")
            await hall.end(first)
            await hall.end(second)

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    assert len(caplog.messages) == 2
    assert all("1 of 1 calls run, 1 of 1 wait" in message for message in caplog.messages)


def test_a_call_never_waits_for_a_place_that_its_own_chain_holds() -> None:
    async def run() -> None:
        hall = Hall(1, 9)
        async with hall.admission.place(handed=True, returned=True):  # there is one, and it may have that
            with pytest.raises(BusyError, match="would wait for itself"):
                async with hall.admission.place(handed=True, returned=True):
                    raise AssertionError
            assert hall.counts == (1, 0)
        async with hall.admission.place():
            assert hall.counts == (1, 0)

    asyncio.run(run())


def test_what_another_agent_waits_for_is_refused_where_all_wait_for_agents(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(admission, "HELD_UP", 0.01)
    looked, look = asyncio.Event(), Admission._refuse_circle

    def looking(hall: Admission) -> None:
        looked.set()
        look(hall)

    monkeypatch.setattr(Admission, "_refuse_circle", looking)

    async def handed(hall: Hall) -> None:
        async with hall.admission.place(handed=True):
            hall.begun.append("handed")

    async def run() -> None:
        hall = Hall(1, 9)
        async with hall.admission.place() as place:
            waiting = asyncio.create_task(handed(hall))
            await looked.wait()
            assert not waiting.done(), "the one that runs does something of its own"
            with (
                hall.admission.asking(place),
                hall.admission.asking(place),
                pytest.raises(BusyError, match="all of them wait for other agents"),
            ):
                await waiting
            assert hall.counts == (1, 0)
            again = asyncio.create_task(handed(hall))
            await settle()
        await again
        assert (hall.begun, hall.counts) == (["handed"], (0, 0))
        cancelled = asyncio.create_task(handed(hall))
        async with hall.admission.place():
            await settle()
            cancelled.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await cancelled
        async with hall.admission.place():
            assert hall.counts == (1, 0)

    asyncio.run(run())
