"""Cycles in a graph of dependencies, named so that a person can cut them.

Pure; knows names and edges, nothing of files or agents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def cycles(dependencies: Mapping[str, Sequence[str]]) -> list[tuple[str, ...]]:
    """Cycles that share no node: cutting one edge of each is a step towards a graph without any.

    Each cycle starts with that of its nodes that comes first in `dependencies`, follows the direction of
    dependence and does not repeat its first node. An empty result means that the graph has no cycle.
    Dependencies that are not keys of the mapping are passed over.
    """
    remaining = {name: [to for to in edges if to in dependencies] for name, edges in dependencies.items()}
    order = {name: index for index, name in enumerate(dependencies)}
    found = []
    while _trim(remaining):
        cycle = _walk(remaining)
        first = min(range(len(cycle)), key=lambda index: order[cycle[index]])
        found.append((*cycle[first:], *cycle[:first]))
        for name in cycle:
            del remaining[name]
    return sorted(found, key=lambda cycle: order[cycle[0]])


def _trim(remaining: dict[str, list[str]]) -> bool:
    """Take away, in place, whatever is not held up by a cycle; whether anything is left."""
    dependants: dict[str, list[str]] = {name: [] for name in remaining}
    waiting = {}
    for name, edges in remaining.items():
        remaining[name] = edges = [to for to in edges if to in remaining]
        waiting[name] = len(edges)
        for to in edges:
            dependants[to].append(name)
    free = [name for name, count in waiting.items() if count == 0]
    while free:
        name = free.pop()
        del remaining[name]
        for dependant in dependants[name]:
            waiting[dependant] -= 1
            if waiting[dependant] == 0:
                free.append(dependant)
    for name, edges in remaining.items():
        remaining[name] = [to for to in edges if to in remaining]
    return bool(remaining)


def _walk(remaining: Mapping[str, Sequence[str]]) -> list[str]:
    """Follow first dependencies until a node comes again: every remaining node has one."""
    position: dict[str, int] = {}
    name = next(iter(remaining))
    while name not in position:
        position[name] = len(position)
        name = remaining[name][0]
    return list(position)[position[name] :]
