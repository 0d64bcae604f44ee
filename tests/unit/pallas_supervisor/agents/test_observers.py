"""Observers are called in order, whatever one of them does; some once a turn of the loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pallas_supervisor.agents.observers import Observers, ObserversOnce

if TYPE_CHECKING:
    import pytest


def fail(_what: str) -> None:
    raise RuntimeError("a defect elsewhere")


def test_one_that_fails_costs_no_other_its_call(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []
    observers = Observers[str]()
    observers.add(fail, seen.append)
    observers("news")
    assert seen == ["news"]
    assert "a defect elsewhere" in caplog.text


def test_what_happens_in_one_turn_of_the_loop_is_told_once_and_after_all_of_it() -> None:
    async def run() -> None:
        happened = 0
        seen: list[int] = []
        observers = ObserversOnce()
        observers.add(lambda: seen.append(happened))
        for _ in range(2):
            for _ in range(3):
                happened += 1
                observers()
            await asyncio.sleep(0)
        assert seen == [3, 6]

    asyncio.run(run())
