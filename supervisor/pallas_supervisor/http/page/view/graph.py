"""The dependency graph as inline SVG, each agent a link to its row. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pallas_common.http.html import Html, tag
from pallas_common.problems import shortened
from pallas_supervisor.http.page.view.glyphs import glyph

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pallas_supervisor.http.page.data.facts import AgentFacts
    from pallas_supervisor.http.page.view.layers import Layout, Line, Place

BOX_HEIGHT = 30
ROW_GAP = 12
COLUMN_GAP = 64
MARGIN = 8
LETTER = 8
"""Width of a letter of the fixed-width font, on the generous side."""
MAX_LETTERS = 24


def graph(agents: Iterable[AgentFacts], layout: Layout) -> Html:
    """The drawing of a layout that has places."""
    facts = {agent.name: agent for agent in agents}
    width = LETTER * max(len(shortened(name, MAX_LETTERS)) for name in layout.places) + 44
    pen = _Pen(width)
    lines = [pen.line(line, layout, broken=not facts[line.target].available) for line in layout.lines]
    boxes = [
        pen.box(facts[name], place)
        for name, place in sorted(layout.places.items(), key=lambda item: (item[1].column, item[1].row))
    ]
    full = 2 * MARGIN + layout.columns * width + (layout.columns - 1) * COLUMN_GAP
    high = 2 * MARGIN + layout.rows * BOX_HEIGHT + (layout.rows - 1) * ROW_GAP
    return tag(
        "svg",
        tag("g", *lines, class_="lines", aria_hidden="true"),
        *boxes,
        class_="graph",
        role="group",
        aria_label="Who needs whom, from left to right",
        viewBox=f"0 0 {full} {high}",
        width=full,
        height=high,
    )


class _Pen:
    def __init__(self, width: int) -> None:
        self._width = width

    def _corner(self, place: Place) -> tuple[float, float]:
        return (
            MARGIN + place.column * (self._width + COLUMN_GAP),
            MARGIN + place.row * (BOX_HEIGHT + ROW_GAP),
        )

    def box(self, agent: AgentFacts, place: Place) -> Html:
        x, y = self._corner(place)
        needs = f", needs {', '.join(agent.needs)}" if agent.needs else ""
        return tag(
            "a",
            tag("title", f"{agent.name}: {agent.state}{needs}"),
            tag("rect", x=x, y=y, width=self._width, height=BOX_HEIGHT, rx=6),
            tag("g", glyph(str(agent.state), x=int(x) + 10, y=int(y) + 7), class_=f"is-{agent.state}"),
            tag("text", shortened(agent.name, MAX_LETTERS), x=x + 34, y=y + BOX_HEIGHT / 2 + 4.5),
            href=f"#agent-{agent.name}",
            class_="box",
            data_key=agent.name,
            aria_label=f"{agent.name}, {agent.state}{needs}",
        )

    def line(self, line: Line, layout: Layout, *, broken: bool) -> Html:
        x, y = self._corner(layout.places[line.source])
        x, y = x + self._width, y + BOX_HEIGHT / 2
        drawn = [f"M{x:g} {y:g}"]
        for stop in line.through:
            left, top = self._corner(stop)
            drawn.append(_curve(x, y, left, top + BOX_HEIGHT / 2))
            x, y = left + self._width, top + BOX_HEIGHT / 2
            drawn.append(f"H{x:g}")
        left, top = self._corner(layout.places[line.target])
        drawn.append(_curve(x, y, left - 2, top + BOX_HEIGHT / 2))
        return tag(
            "path",
            class_="line broken" if broken else "line",
            d="".join(drawn),
            marker_end="url(#arrow)",
            data_key=f"{line.source} {line.target}",
        )


def _curve(x: float, y: float, to_x: float, to_y: float) -> str:
    middle = (x + to_x) / 2
    return f"C{middle:g} {y:g} {middle:g} {to_y:g} {to_x:g} {to_y:g}"
