"""The order in which agents start and stop, and who needs whom."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pallas_supervisor.lifecycle.dependencies import Graph

DIAMOND = {
    "jarvis": ("research", "engineering"),
    "research": ("library",),
    "engineering": ("library",),
    "library": (),
}


def test_start_order_puts_dependencies_first_and_stop_order_last() -> None:
    graph = Graph(DIAMOND)
    assert graph.start_order[0] == "library"
    assert graph.start_order[-1] == "jarvis"
    assert graph.stop_order == graph.start_order[::-1]


def test_neighbours_and_closures() -> None:
    graph = Graph(DIAMOND)
    assert graph.dependencies("jarvis") == ("research", "engineering")
    assert set(graph.dependents("library")) == {"research", "engineering"}
    assert graph.needed_by(["research"]) == ("library", "research")
    assert set(graph.needing(["research"])) == {"research", "jarvis"}
    assert graph.needed_by([]) == ()


@st.composite
def acyclic(draw: st.DrawFn) -> dict[str, tuple[str, ...]]:
    names = [f"a{number}" for number in range(draw(st.integers(1, 9)))]
    edges = {
        name: tuple(draw(st.sets(st.sampled_from(names[:index])))) if index else ()
        for index, name in enumerate(names)
    }
    return {name: edges[name] for name in draw(st.permutations(names))}


@given(acyclic())
def test_every_order_respects_every_edge(dependencies: dict[str, tuple[str, ...]]) -> None:
    graph = Graph(dependencies)
    assert sorted(graph.start_order) == sorted(dependencies)
    position = {name: index for index, name in enumerate(graph.start_order)}
    for name, needs in dependencies.items():
        assert all(position[need] < position[name] for need in needs)
        assert all(name in graph.dependents(need) for need in needs)
        assert set(needs) <= set(graph.needed_by([name]))
        assert all(name in graph.needing([need]) for need in needs)
