"""How long a restart waits, and after how many failures there is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pallas_supervisor.lifecycle.backoff import JITTER, LONGEST, backoff_seconds, budget_spent


@pytest.mark.parametrize(
    ("failures", "was_ready", "seconds"),
    [(1, False, 0.5), (2, False, 1.0), (3, False, 2.0), (7, False, 30.0), (1, True, 0.0), (2, True, 0.5)],
)
def test_the_wait_doubles_from_half_a_second(failures: int, was_ready: bool, seconds: float) -> None:
    assert backoff_seconds(failures, 0.5, was_ready=was_ready) == pytest.approx(seconds)


@given(st.integers(1, 10_000), st.floats(0.0, 1.0, exclude_max=True), st.booleans())
def test_the_wait_is_bounded_and_spread(failures: int, draw: float, was_ready: bool) -> None:
    wait = backoff_seconds(failures, draw, was_ready=was_ready)
    middle = backoff_seconds(failures, 0.5, was_ready=was_ready)
    assert 0.0 <= wait <= LONGEST * (1 + JITTER)
    assert middle * (1 - JITTER) <= wait <= middle * (1 + JITTER)
    assert backoff_seconds(failures + 1, 0.5, was_ready=was_ready) >= middle


def test_there_is_no_wait_without_a_failure() -> None:
    with pytest.raises(ValueError, match="no back-off without a failure"):
        backoff_seconds(0, 0.5, was_ready=False)


def test_the_budget_is_the_number_of_failures_that_are_answered() -> None:
    assert [budget_spent(failures, 3) for failures in (1, 2, 3, 4)] == [False, False, True, True]
