"""Cycles in a graph of dependencies, named so that a person can cut them.

Pure; knows names and edges, nothing of files or agents. Not by `graphlib`, which names one cycle at a time: looking
again after each takes time in the square of the number of agents, and the cycle that it names is not always the one
that a person meets first in the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


def cycles(dependencies: Mapping[str, Sequence[str]]) -> list[tuple[str, ...]]:
    """Cycles that share no node: cutting one edge of each is a step towards a graph without any.

    Each cycle starts with that of its nodes that comes first in `dependencies`, follows the direction of
    dependence and does not repeat its first node. An empty result means that the graph has no cycle.
    Dependencies that are not keys of the mapping are passed over.
    """
    edges = {name: [to for to in wanted if to in dependencies] for name, wanted in dependencies.items()}
    order = {name: index for index, name in enumerate(dependencies)}
    held = _Held(edges)
    found = []
    for start in edges:
        path: list[str] = []
        place: dict[str, int] = {}
        while start in held:
            name = held.next(path[-1]) if path else start
            if name not in place:
                place[name] = len(path)
                path.append(name)
                continue
            cycle = path[place[name] :]
            first = min(range(len(cycle)), key=lambda index: order[cycle[index]])
            found.append((*cycle[first:], *cycle[:first]))
            held.remove(cycle)
            while path and path[-1] not in held:  # what is left of the path is still one
                del place[path.pop()]
    return sorted(found, key=lambda cycle: order[cycle[0]])


class _Held:
    """The nodes from which a cycle can be reached, while nodes are taken away; in time linear in the edges, in all."""

    def __init__(self, edges: Mapping[str, Sequence[str]]) -> None:
        self._edges = edges
        self._nodes = set(edges)
        self._left = {name: len(wanted) for name, wanted in edges.items()}
        self._passed = dict.fromkeys(edges, 0)
        self._dependants: dict[str, list[str]] = {name: [] for name in edges}
        for name, wanted in edges.items():
            for to in wanted:
                self._dependants[to].append(name)
        self.remove([name for name, count in self._left.items() if count == 0])

    def __contains__(self, name: str) -> bool:
        return name in self._nodes

    def next(self, name: str) -> str:
        """The first of the node's dependencies that is still here; there is one."""
        while self._edges[name][self._passed[name]] not in self._nodes:
            self._passed[name] += 1
        return self._edges[name][self._passed[name]]

    def remove(self, names: Iterable[str]) -> None:
        """Take these away, and whatever is then not held up by a cycle any more."""
        leaving = list(names)
        self._nodes.difference_update(leaving)
        while leaving:
            for dependant in self._dependants[leaving.pop()]:
                self._left[dependant] -= 1
                if self._left[dependant] == 0 and dependant in self._nodes:
                    self._nodes.remove(dependant)
                    leaving.append(dependant)
