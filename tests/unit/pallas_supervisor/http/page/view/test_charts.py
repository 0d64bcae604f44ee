"""Charts stay within their frame and show what is short, too."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from pallas_supervisor.http.page.data.history import (
    POINTS,
    Stretch,
)
from pallas_supervisor.http.page.view.charts import HEIGHT, WIDTH, area, bars, strip


def numbers(markup: str) -> list[float]:
    drawn = " ".join(re.findall(r' d="([^"]*)"', markup))
    return [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", drawn)]


@given(st.lists(st.none() | st.floats(0, 1e12), max_size=POINTS))
def test_no_chart_draws_outside_of_itself(values: list[float | None]) -> None:
    known = tuple(value or 0.0 for value in values)
    for drawn in (bars(known, known, floor=1.0, label="x"), area(tuple(values), floor=1.0, label="x")):
        assert all(-HEIGHT <= number <= max(WIDTH, HEIGHT) for number in numbers(drawn))


def test_a_restart_of_milliseconds_is_seen() -> None:
    states = (Stretch(0.0, 0.5, "ready"), Stretch(0.5, 0.50001, "starting"), Stretch(0.50001, 1.0, "ready"))
    drawn = strip(states, label="x")
    (width,) = re.findall(r'class="state-starting" x="[^"]*" width="([^"]*)"', drawn)
    assert float(width) >= 1.5
    assert drawn.index("state-starting") > drawn.rindex("state-ready"), "nothing lies over it"
