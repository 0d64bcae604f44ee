"""Who depends on whom: start order, stop order, dependents. Pure; cycles were refused by the reader already."""

from __future__ import annotations

from graphlib import TopologicalSorter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class Graph:
    """An immutable dependency graph over agent names.

    Args:
        dependencies: agent → what it depends on; every name is a key.
    """

    def __init__(self, dependencies: Mapping[str, Iterable[str]]) -> None:
        self._dependencies = {name: tuple(needs) for name, needs in dependencies.items()}
        self._dependents: dict[str, list[str]] = {name: [] for name in self._dependencies}
        for name, needs in self._dependencies.items():
            for need in needs:
                self._dependents[need].append(name)
        self.start_order = tuple(TopologicalSorter(self._dependencies).static_order())
        """All names, each after all that it depends on."""

        self._places = {name: place for place, name in enumerate(self.start_order)}

    @property
    def stop_order(self) -> tuple[str, ...]:
        """All names, each after all that depend on it."""
        return self.start_order[::-1]

    def in_start_order(self, names: Iterable[str]) -> list[str]:
        """These names, each after all that it depends on."""
        return sorted(names, key=self._places.__getitem__)

    def dependencies(self, name: str) -> tuple[str, ...]:
        """What `name` depends on directly."""
        return self._dependencies[name]

    def dependents(self, name: str) -> Sequence[str]:
        """What depends on `name` directly."""
        return self._dependents[name]

    def needed_by(self, names: Iterable[str]) -> tuple[str, ...]:
        """`names` and all that they depend on, directly or not, in start order."""
        return self._closure(names, self._dependencies)

    def needing(self, names: Iterable[str]) -> tuple[str, ...]:
        """`names` and all that depend on them, directly or not, in start order."""
        return self._closure(names, self._dependents)

    def _closure(self, names: Iterable[str], edges: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
        found: set[str] = set()
        left = list(names)
        while left:
            name = left.pop()
            if name not in found:
                found.add(name)
                left.extend(edges[name])
        return tuple(self.in_start_order(found))
