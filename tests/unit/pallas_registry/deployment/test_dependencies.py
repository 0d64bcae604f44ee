"""Cycles: found exactly where there are some, each a real one."""

from __future__ import annotations

import graphlib

from hypothesis import given
from hypothesis import strategies as st

from pallas_registry.deployment.dependencies import cycles

NAMES = "abcdefgh"
GRAPHS = st.dictionaries(st.sampled_from(NAMES), st.lists(st.sampled_from(NAMES), max_size=4), max_size=8)


@given(GRAPHS)
def test_cycles_are_found_exactly_where_there_are_some(graph: dict[str, list[str]]) -> None:
    try:
        graphlib.TopologicalSorter(graph).prepare()
        cyclic = False
    except graphlib.CycleError:
        cyclic = True
    assert bool(cycles(graph)) == cyclic


@given(GRAPHS)
def test_each_is_a_real_cycle_and_none_share_a_node(graph: dict[str, list[str]]) -> None:
    found = cycles(graph)
    for cycle in found:
        for name, to in zip(cycle, (*cycle[1:], cycle[0]), strict=True):
            assert to in graph[name]
        assert list(graph).index(cycle[0]) == min(map(list(graph).index, cycle))
    nodes = [name for cycle in found for name in cycle]
    assert len(nodes) == len(set(nodes))


def test_a_long_chain_needs_no_deep_stack() -> None:
    chain = {f"n{index}": [f"n{index + 1}"] for index in range(20_000)}
    assert cycles(chain) == []
    assert len(cycles({**chain, "n20000": ["n0"]})[0]) == 20_001
