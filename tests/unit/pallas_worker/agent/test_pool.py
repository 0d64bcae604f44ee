"""The pool on fakes: nothing is handed out twice, nothing stays, and no caller's context is in what is made ahead."""

from __future__ import annotations

import asyncio
import contextvars
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from pallas_worker.agent import pool as module
from pallas_worker.agent.pool import MAX_LEAVING, Pool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

caller: contextvars.ContextVar[str | None] = contextvars.ContextVar("caller", default=None)


@dataclass
class Thing:
    """What the pool keeps: it knows which task has entered it, and for whom."""

    number: int
    owner: asyncio.Task[None] | None
    caller: str | None
    usable: bool = True
    left: bool = False


@dataclass
class Factory:
    """Makes things, and remembers them all."""

    made: list[Thing] = field(default_factory=list)
    fails: bool = False
    usable: bool = True
    leaving: asyncio.Event | None = None
    """Things leave only once it is set."""
    entering: asyncio.Event | None = None

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator[Thing]:
        if self.entering is not None:
            await self.entering.wait()
        if self.fails:
            raise ValueError("cannot be made")
        thing = Thing(len(self.made), asyncio.current_task(), caller.get(), self.usable)
        self.made.append(thing)
        try:
            yield thing
        finally:
            assert asyncio.current_task() is thing.owner
            if self.leaving is not None:
                await self.leaving.wait()
            thing.left = True

    def pool(self, size: int = 3, max_age: float = 60.0) -> Pool[Thing]:
        return Pool(self, lambda thing: thing.usable, size=size, max_age=max_age, retry=0.0)


async def filled(pool: Pool[Thing], count: int) -> None:
    """Wait until so many things wait."""
    async with asyncio.timeout(60):
        while pool.waiting != count:  # noqa: ASYNC110 - the pool has no event for tests
            await asyncio.sleep(0)


async def stopped(pool: Pool[Thing], keeping: asyncio.Task[None]) -> None:
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    await pool.close(60)


def test_nothing_is_handed_out_twice_and_all_is_left() -> None:
    async def run() -> None:
        factory = Factory()
        pool = factory.pool()
        keeping = asyncio.create_task(pool.keep())
        seen: list[int] = []

        async def use() -> None:
            owned = pool.take() or pool.open(factory())
            seen.append((await owned.value()).number)
            await asyncio.sleep(0)
            pool.give_up(owned)

        for _ in range(50):
            await asyncio.gather(*(use() for _ in range(8)))
        await stopped(pool, keeping)
        assert len(seen) == len(set(seen)) == 400
        assert all(thing.left for thing in factory.made)
        assert pool.waiting == 0

    asyncio.run(run())


def test_it_is_bounded_and_refilled() -> None:
    async def run() -> None:
        factory = Factory()
        pool = factory.pool(size=2)
        keeping = asyncio.create_task(pool.keep())
        await filled(pool, 1)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(factory.made) == 1  # one is enough until somebody asks
        owned = pool.take()
        assert owned is not None
        await filled(pool, 2)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(factory.made) == 3
        pool.give_up(owned)
        await stopped(pool, keeping)

    asyncio.run(run())


def test_what_is_offered_is_handed_out_first() -> None:
    async def run() -> None:
        factory = Factory()
        pool = factory.pool()
        tried, useless = pool.open(factory()), pool.open(factory())
        await tried.value()
        (await useless.value()).usable = False
        assert pool.offer(tried)
        assert not pool.offer(useless)
        pool.give_up(useless)
        keeping = asyncio.create_task(pool.keep())
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(factory.made) == 2  # one that waits is enough until somebody asks
        owned = pool.take()
        assert owned is tried
        pool.give_up(owned)
        await stopped(pool, keeping)
        assert all(thing.left for thing in factory.made)

    asyncio.run(run())


def test_what_is_offered_is_left_though_nobody_keeps_it() -> None:
    async def run() -> None:
        factory = Factory()
        pool = factory.pool()
        tried = pool.open(factory())
        await tried.value()
        assert pool.offer(tried)
        await pool.close(60)
        assert factory.made[0].left

    asyncio.run(run())


def test_a_nudge_makes_one_though_nobody_has_asked_for_long() -> None:
    async def run() -> None:
        factory = Factory()
        pool = factory.pool(max_age=0.0)  # what nobody asks for now, nobody has asked for in time
        keeping = asyncio.create_task(pool.keep())
        for number in (1, 2):
            for _ in range(20):
                await asyncio.sleep(0)
            assert len(factory.made) == number - 1
            pool.nudge()
            async with asyncio.timeout(60):
                while len(factory.made) < number:  # noqa: ASYNC110 - the pool has no event for tests
                    await asyncio.sleep(0)
        await stopped(pool, keeping)
        assert all(thing.left for thing in factory.made)

    asyncio.run(run())


def test_what_is_made_ahead_knows_no_caller() -> None:
    async def run() -> None:
        factory = Factory()
        pool = factory.pool(size=1)
        keeping = asyncio.create_task(pool.keep())
        await filled(pool, 1)
        caller.set("the first caller")
        owned = pool.take()  # wakes the pool from inside a call
        assert owned is not None
        await filled(pool, 1)
        assert [thing.caller for thing in factory.made] == [None, None]
        # What is made on demand is this caller's own.
        own = pool.open(factory())
        assert (await own.value()).caller == "the first caller"
        pool.give_up(owned)
        pool.give_up(own)
        await stopped(pool, keeping)

    asyncio.run(run())


def test_what_has_gone_bad_or_old_is_disposed_of(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))

    async def run() -> None:
        nonlocal now
        factory = Factory()
        pool = factory.pool(size=2)
        assert pool.take() is None
        keeping = asyncio.create_task(pool.keep())
        await filled(pool, 2)
        factory.made[0].usable = False
        owned = pool.take()
        assert owned is not None
        assert (await owned.value()).number == 1
        pool.give_up(owned)
        await stopped(pool, keeping)
        assert all(thing.left for thing in factory.made)

        old = Factory()
        pool = old.pool(size=1, max_age=0.02)
        keeping = asyncio.create_task(pool.keep())
        await filled(pool, 1)
        now += 0.03
        await filled(pool, 0)  # nobody asks: it is given up and not made anew
        assert len(old.made) == 1
        await stopped(pool, keeping)

    asyncio.run(run())


def test_a_cancelled_call_gives_nothing_back() -> None:
    async def run() -> None:
        factory = Factory(entering=asyncio.Event())
        pool = factory.pool()
        owned = pool.open(factory())
        call = asyncio.create_task(owned.value())
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await pool.close(60)
        assert owned.task.done()
        assert pool.waiting == 0
        assert not factory.made

    asyncio.run(run())


def test_a_failure_is_the_callers_and_making_ahead_waits() -> None:
    async def run() -> None:
        factory = Factory(fails=True)
        pool: Pool[Thing] = Pool(factory, lambda thing: thing.usable, size=2, retry=60.0)
        keeping = asyncio.create_task(pool.keep())
        for _ in range(20):
            await asyncio.sleep(0)
        assert pool.take() is None
        with pytest.raises(ValueError, match="cannot be made"):
            await pool.open(factory()).value()
        await stopped(pool, keeping)

    asyncio.run(run())


def test_what_is_of_no_use_is_not_kept() -> None:
    async def run() -> None:
        factory = Factory(usable=False)
        pool: Pool[Thing] = Pool(factory, lambda thing: thing.usable, size=2, retry=60.0)
        keeping = asyncio.create_task(pool.keep())
        async with asyncio.timeout(60):
            while not (factory.made and factory.made[0].left):  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert pool.waiting == 0
        assert len(factory.made) == 1
        await stopped(pool, keeping)

    asyncio.run(run())


def test_disposals_cannot_pile_up_and_what_hangs_is_abandoned() -> None:
    async def run() -> None:
        factory = Factory(leaving=asyncio.Event())
        pool = factory.pool()
        for _ in range(MAX_LEAVING + 1):
            owned = pool.open(factory())
            await owned.value()
            pool.give_up(owned)
        settling = asyncio.create_task(pool.settle())
        await asyncio.sleep(0)
        assert not settling.done()
        assert factory.leaving is not None
        factory.leaving.set()
        await asyncio.wait_for(settling, 60)
        await pool.close(60)
        assert all(thing.left for thing in factory.made)

        hanging = Factory(leaving=asyncio.Event())
        pool = hanging.pool()
        owned = pool.open(hanging())
        await owned.value()
        pool.give_up(owned)
        await asyncio.wait_for(pool.close(0.01), 60)
        assert owned.task.done()

    asyncio.run(run())
