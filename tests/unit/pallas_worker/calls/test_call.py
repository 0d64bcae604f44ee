"""Calls that come together begin one after the other: none of them waits in the loop's way for all of the others."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

from pallas_worker.calls.admission import Admission
from pallas_worker.calls.call import Caller, Calls
from pallas_worker.fastagent.streams.pacing import BUDGET
from pallas_worker.interface.errors import ArgumentError, FailedTurn

if TYPE_CHECKING:
    from pallas_worker.interface.turn import TurnRequest

TOGETHER = 20


def test_no_two_calls_that_take_long_to_read_begin_in_one_iteration_of_the_loop() -> None:
    iteration = 0
    begun: list[int] = []

    def read() -> TurnRequest:
        begun.append(iteration)
        until = time.perf_counter() + 1.5 * BUDGET
        while time.perf_counter() < until:  # the loop's own time is what this is about
            pass
        raise ArgumentError("not this one")

    async def count() -> None:
        nonlocal iteration
        while True:
            await asyncio.sleep(0)
            iteration += 1

    async def run() -> None:
        nobody: Any = None
        admission = Admission(TOGETHER, 0, lambda _running, _waiting: None)
        calls = Calls("demo", nobody, admission=admission, vision=nobody, model_called=nobody)
        counting = asyncio.create_task(count())
        caller = Caller(surface="send_message", request_id="1")
        turns = [asyncio.create_task(calls.turn(read, caller)) for _ in range(TOGETHER)]
        for turn in turns:
            with pytest.raises(FailedTurn, match="not this one"):
                await turn
        counting.cancel()

    asyncio.run(run())
    assert len(set(begun)) == TOGETHER
