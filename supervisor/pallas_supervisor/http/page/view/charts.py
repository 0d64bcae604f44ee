"""Small charts as inline SVG: bars, an area, a strip of states. Pure.

Knows numbers and stretches of time; colours and sizes on the screen are the style sheet's. Charts are cached: they
change every 15 seconds, and are shown more often.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from pallas_common.http.html import Html, tag
from pallas_supervisor.http.page.data.history import POINTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pallas_supervisor.http.page.data.history import Stretch

STEP = 2
"""Units of width of one interval."""
WIDTH = STEP * POINTS
HEIGHT = 24
STRIP_HEIGHT = 5
REMEMBERED = 512
"""Charts of each kind: those of 500 agents."""
SHORTEST = 1.5
"""Units of width of the shortest stretch, so that a restart of milliseconds is seen."""


@lru_cache(REMEMBERED)
def bars(values: tuple[float, ...], part: tuple[float, ...], *, floor: float, label: str) -> Html:
    """A bar for each value, the newest at the right; `part` is drawn over its foot.

    Args:
        floor: the least value that fills the height, so that a single event is no tower.
        label: what it shows, for those who do not see it.
    """
    top = max(*values, floor) if values else floor
    return _chart(
        label,
        HEIGHT,
        _path("bars", _columns(values, top)),
        _path("bars part", _columns(part, top)),
    )


@lru_cache(REMEMBERED)
def area(values: tuple[float | None, ...], *, floor: float, label: str) -> Html:
    """A line over a filled area, the newest at the right; None is a gap."""
    top = max(floor, 1.1 * max((value for value in values if value is not None), default=0.0))
    begin = WIDTH - STEP * len(values)
    runs: list[list[tuple[float, float]]] = [[]]
    for index, value in enumerate(values):
        if value is None:
            runs.append([])
        else:
            height = HEIGHT - value / top * (HEIGHT - 1)
            runs[-1].append((begin + STEP * index, height))
    lines, fills = [], []
    for run in filter(None, runs):
        run.append((run[-1][0] + STEP, run[-1][1]))  # the last value holds to the end of its interval
        line = "L".join(f"{x:g} {y:.1f}" for x, y in run)
        lines.append(f"M{line}")
        fills.append(f"M{run[0][0]:g} {HEIGHT}L{line}V{HEIGHT}z")
    return _chart(label, HEIGHT, _path("fill", "".join(fills)), _path("line", "".join(lines)))


@lru_cache(REMEMBERED)
def strip(stretches: tuple[Stretch, ...], *, label: str) -> Html:
    """A band of the states over time; a stretch that was not ready is wide enough to be seen."""
    shapes = []
    for stretch in stretches:
        begin, end = stretch.begin * WIDTH, stretch.end * WIDTH
        if stretch.state != "ready" and end - begin < SHORTEST:
            begin = max(end - SHORTEST, 0.0)
        shapes.append(
            tag(
                "rect",
                class_=f"state-{stretch.state}",
                x=f"{begin:.1f}",
                width=f"{max(end - begin, 0.0):.1f}",
                height=STRIP_HEIGHT,
            )
        )
    # Ready stretches are drawn first, so that they do not cover a short stretch beside them.
    shapes.sort(key=lambda shape: "state-ready" not in shape)
    return _chart(label, STRIP_HEIGHT, *shapes)


def _columns(values: Sequence[float], top: float) -> str:
    begin = WIDTH - STEP * len(values)
    drawn = []
    for index, value in enumerate(values):
        if value > 0:
            height = max(value / top * HEIGHT, 1.0)
            drawn.append(f"M{begin + STEP * index} {HEIGHT}v-{height:.1f}h1.5v{height:.1f}z")
    return "".join(drawn)


def _path(class_: str, drawn: str) -> Html | None:
    return tag("path", class_=class_, d=drawn) if drawn else None


def _chart(label: str, height: int, *shapes: Html | None) -> Html:
    return tag(
        "svg",
        tag("title", label),
        *shapes,
        class_="chart" if height == HEIGHT else "chart strip",
        role="img",
        aria_label=label,
        viewBox=f"0 0 {WIDTH} {height}",
        preserveAspectRatio="none",
    )
