"""Where the agents stand in the graph, and which way its lines take."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pallas_supervisor.http.page.view.layers import lay_out

NAMES = [f"n{number}" for number in range(9)]


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, list[str]]:
    """Acyclic: everybody needs only those that come later."""
    size = draw(st.integers(0, len(NAMES)))
    return {
        name: draw(st.lists(st.sampled_from(NAMES[index + 1 : size]), unique=True))
        if index + 1 < size
        else []
        for index, name in enumerate(NAMES[:size])
    }


@given(graphs())
def test_who_is_needed_stands_to_the_right_and_nobody_stands_on_another(needs: dict[str, list[str]]) -> None:
    layout = lay_out(needs)
    stops = [stop for line in layout.lines for stop in line.through]
    spots = [*layout.places.values(), *stops]
    assert len(set(spots)) == len(spots)
    assert set(layout.places) | set(layout.alone) == set(needs)
    assert not set(layout.places) & set(layout.alone)
    assert {(line.source, line.target) for line in layout.lines} == {
        (name, need) for name in needs for need in needs[name]
    }
    for line in layout.lines:
        source, target = layout.places[line.source].column, layout.places[line.target].column
        assert [stop.column for stop in line.through] == list(range(source + 1, target))
    assert all(0 <= spot.row <= layout.rows - 1 and spot.column < layout.columns for spot in spots)


def test_lines_that_need_not_cross_do_not() -> None:
    layout = lay_out({"a": ["x"], "b": ["y"], "c": ["z"], "z": [], "y": [], "x": []})
    order = sorted("xyz", key=lambda name: layout.places[name].row)
    assert [layout.places[name].row for name in ("a", "b", "c")] == [0.0, 1.0, 2.0]
    assert order == ["x", "y", "z"]
