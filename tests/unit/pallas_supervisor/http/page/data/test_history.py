"""The history that the charts show: rates, bounds, states."""

from __future__ import annotations

import pytest

from pallas_supervisor.http.page.data.history import (
    INTERVAL,
    MAX_CHANGES,
    POINTS,
    WINDOW,
    Count,
    History,
    Stretch,
    together,
)


def test_a_rate_is_of_the_last_minute_and_falls_back_to_none() -> None:
    history = History(0.0)
    seen = []
    for tick in range(1, 11):
        now = tick * INTERVAL
        count = Count(calls=min(tick, 2) * 3.0)  # three calls in each of the first two intervals, then none
        seen.append(history.trend("a", count, now).rate.calls)
        history.record({"a": count}, {}, now)
    assert seen[:2] == [3.0, 6.0], "what is younger than a minute is not extrapolated"
    assert seen[4] == pytest.approx(6 * 60 / 75)
    assert seen[6:] == [0.0] * 4
    assert [point.counted.calls for point in history.trend("a", count, now).points][:3] == [3.0, 3.0, 0.0]


def test_a_counter_that_began_anew_counts_from_nothing() -> None:
    history = History(0.0)
    history.record({"a": Count(calls=10.0)}, {}, INTERVAL)
    assert history.trend("a", Count(calls=4.0), INTERVAL).rate.calls == 14.0


def test_the_history_is_bounded_and_forgets_who_left() -> None:
    history = History(0.0)
    for tick in range(3 * MAX_CHANGES):
        history.change("a", "ready", float(tick))
        history.record({"a": Count(calls=1.0 * tick)}, {"a": tick}, float(tick))
    trend = history.trend("a", Count(), 0.0)
    assert len(trend.points) == POINTS
    assert trend.points[-1].memory == 3 * MAX_CHANGES - 1
    assert len(history.stretches("a")) <= MAX_CHANGES
    history.keep(["b"])
    assert history.trend("a", Count(), 0.0).points == ()


def test_states_are_stretches_of_the_window() -> None:
    history = History(0.0)
    history.change("a", "starting", 0.0)
    history.change("a", "ready", WINDOW / 2)
    history.record({}, {}, WINDOW - INTERVAL)
    assert history.stretches("a") == [Stretch(0.0, 0.5, "starting"), Stretch(0.5, 1.0, "ready")]
    history.record({}, {}, WINDOW * 2)
    assert history.stretches("a") == [Stretch(0.0, 1.0, "ready")], "what is over has left"


def test_agents_that_came_later_are_added_at_the_end() -> None:
    history = History(0.0)
    history.record({"a": Count(calls=1.0)}, {"a": 10}, INTERVAL)
    history.record({"a": Count(calls=3.0), "b": Count(calls=5.0)}, {"a": 10, "b": 7}, 2 * INTERVAL)
    sum_ = together(
        [history.trend("a", Count(3.0), 2 * INTERVAL), history.trend("b", Count(5.0), 2 * INTERVAL)]
    )
    assert [(point.counted.calls, point.memory) for point in sum_.points] == [(1.0, 10), (7.0, 17)]
    assert sum_.rate.calls == 8.0


def test_who_was_idle_for_all_of_the_window_costs_nothing_and_goes_on_from_its_counts() -> None:
    history = History(0.0)
    history.change("a", "ready", 0.0)
    history.record({"a": Count(calls=5.0)}, {"a": 10}, INTERVAL)
    for tick in range(2, POINTS + 2):
        assert not history.is_quiet("a")
        history.record({}, {}, tick * INTERVAL)
    assert history.is_quiet("a")
    assert history.trend("a", history.seen("a"), WINDOW).rate == Count()
    history.record({"a": Count(calls=6.0)}, {"a": 10}, 2 * WINDOW)
    assert [point.counted.calls for point in history.trend("a", Count(calls=6.0), 2 * WINDOW).points] == [1.0]
