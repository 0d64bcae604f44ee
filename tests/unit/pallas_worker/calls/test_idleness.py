"""When a worker says that nobody calls it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pallas_worker.calls.idleness import Idleness

if TYPE_CHECKING:
    from collections.abc import Callable


class Alarm:
    """A timer of an hourglass."""

    def __init__(self, at: float, act: Callable[[], None]) -> None:
        self.at = at
        self.act = act
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Hourglass:
    """A clock that the test turns, and what it has told."""

    def __init__(self, timeout: float = 10.0) -> None:
        self.now = 0.0
        self.told: list[float] = []
        self.takes = True
        self._alarms: list[Alarm] = []
        self.idleness = Idleness(timeout, self._tell, self._later)

    def _tell(self) -> bool:
        self.told.append(self.now)
        return self.takes

    def _later(self, seconds: float, act: Callable[[], None]) -> Alarm:
        alarm = Alarm(self.now + seconds, act)
        self._alarms.append(alarm)
        return alarm

    @property
    def waiting(self) -> int:
        return sum(not alarm.cancelled for alarm in self._alarms)

    def until(self, moment: float) -> None:
        while due := [alarm for alarm in self._alarms if not alarm.cancelled and alarm.at <= moment]:
            first = min(due, key=lambda alarm: alarm.at)
            self._alarms.remove(first)
            self.now = first.at
            first.act()
        self.now = moment


def test_nothing_is_told_before_the_agent_can_be_called() -> None:
    glass = Hourglass()
    glass.idleness.observe(0, 0)
    glass.until(100)
    assert glass.told == []


def test_each_time_out_without_a_call_is_told() -> None:
    glass = Hourglass()
    glass.until(3)
    glass.idleness.begin()
    glass.until(35)
    assert glass.told == [13, 23, 33]


@pytest.mark.parametrize(("timeout", "told"), [(10.0, [10, 11, 12, 22]), (0.5, [0.5, 1.0, 1.5, 2.0])])
def test_what_was_not_taken_is_told_again_soon(timeout: float, told: list[float]) -> None:
    glass = Hourglass(timeout)
    glass.takes = False
    glass.idleness.begin()
    glass.until(told[1])
    glass.takes = True
    glass.until(told[3])
    assert glass.told == told


def test_a_call_meanwhile_begins_the_time_anew_also_where_it_was_not_taken() -> None:
    glass = Hourglass()
    glass.takes = False
    glass.idleness.begin()
    glass.until(10.5)
    glass.idleness.observe(1, 0)
    glass.idleness.observe(0, 0)
    glass.until(20)
    assert glass.told == [10]


@pytest.mark.parametrize("counts", [(1, 0), (0, 1), (2, 3)])
def test_no_call_may_run_or_wait_and_time_counts_from_the_end_of_the_last(counts: tuple[int, int]) -> None:
    glass = Hourglass()
    glass.idleness.begin()
    glass.until(9)
    glass.idleness.observe(*counts)
    glass.until(100)
    assert glass.told == []
    glass.idleness.observe(1, 0)
    glass.until(104)
    glass.idleness.observe(0, 0)
    glass.until(120)
    assert glass.told == [114]


def test_calls_one_after_the_other_begin_the_time_anew() -> None:
    glass = Hourglass()
    glass.idleness.begin()
    for moment in range(5, 50, 5):
        glass.until(moment)
        glass.idleness.observe(1, 0)
        glass.idleness.observe(0, 0)
    assert (glass.told, glass.waiting) == ([], 1)
    glass.until(56)
    assert glass.told == [55]


def test_a_call_may_begin_before_the_agent_is_said_to_be_ready() -> None:
    glass = Hourglass()
    glass.idleness.observe(1, 0)
    glass.idleness.begin()
    glass.until(50)
    assert glass.told == []
    glass.idleness.observe(0, 0)
    glass.until(61)
    assert glass.told == [60]


def test_nothing_is_told_during_the_drain() -> None:
    glass = Hourglass()
    glass.idleness.begin()
    glass.idleness.observe(1, 0)
    glass.idleness.end()
    glass.idleness.observe(0, 0)
    glass.until(100)
    assert (glass.told, glass.waiting) == ([], 0)
