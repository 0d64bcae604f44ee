"""How figures are written."""

from __future__ import annotations

import pytest

from pallasctl.text import format_duration


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-1, "0s"), (5.9, "5s"), (192, "3m12s"), (14_700, "4h05m"), (183_600, "2d03h")],
)
def test_durations(seconds: float, shown: str) -> None:
    assert format_duration(seconds) == shown
