"""Times as text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from pallas_common.times import ago, rfc3339, timestamp


@pytest.mark.parametrize(
    ("resolution", "text"),
    [
        ("seconds", "2026-01-31T12:00:00Z"),
        ("milliseconds", "2026-01-31T12:00:00.999Z"),
        ("microseconds", "2026-01-31T12:00:00.999999Z"),
    ],
)
def test_times_are_in_utc_and_cut_to_their_resolution(resolution: str, text: str) -> None:
    moment = datetime(2026, 1, 31, 14, 0, 0, 999_999, timezone(timedelta(hours=2)))
    assert rfc3339(moment, resolution) == text


def test_seconds_since_the_epoch_have_microseconds() -> None:
    assert timestamp(1_773_309_600.25) == "2026-03-12T10:00:00.250000Z"
    assert timestamp(0) == "1970-01-01T00:00:00.000000Z"


def test_timestamps_are_rfc_3339_in_utc() -> None:
    moment = ago(3600.0)
    assert moment.endswith("Z")
    assert len(moment) == len("2026-01-31T12:00:00.000Z")
    assert datetime.fromisoformat(moment) < datetime.now(UTC)
