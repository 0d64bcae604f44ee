"""Heartbeats come once an interval, at moments that all workers share."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from pallas_common.protocol.link.heartbeat import MOMENTS, beat
from pallas_common.protocol.reports import Heartbeat, Report

if TYPE_CHECKING:
    from collections.abc import Callable

HEART = Heartbeat(interval=4.0)


@pytest.mark.parametrize("start", [1000.0, 1000.2, 1003.99])
def test_heartbeats_keep_their_moment_however_late_the_loop_is(
    start: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = start
    beats: list[float] = []

    class Loop:
        time: Callable[[], float] = staticmethod(lambda: now)

    async def sleep(seconds: float) -> None:
        nonlocal now
        assert 0.0 < seconds <= HEART.interval
        now += seconds + 0.01 * len(beats)

    def report(message: Report) -> None:
        assert message is HEART
        beats.append(now)
        if len(beats) == 20:
            raise asyncio.CancelledError

    monkeypatch.setattr(asyncio, "get_running_loop", Loop)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    coroutine = beat(HEART, report)
    with pytest.raises(asyncio.CancelledError):
        coroutine.send(None)
    step = HEART.interval / MOMENTS
    assert beats[0] - start <= HEART.interval
    assert all((moment % step) < 0.25 for moment in beats)
    assert all(abs(later - earlier - HEART.interval) < 0.02 for earlier, later in pairwise(beats))
