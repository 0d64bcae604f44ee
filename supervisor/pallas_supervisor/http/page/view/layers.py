"""A dependency graph in columns, as Sugiyama, Tagawa and Toda draw them. Pure.

Knows names and dependencies; nothing of pixels. A dependency stands to the right of all that need it; a line over
several columns passes between the agents there; within a column the order keeps lines short.
"""

from __future__ import annotations

from dataclasses import dataclass
from graphlib import TopologicalSorter
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SWEEPS = 6


@dataclass(frozen=True, slots=True)
class Place:
    """Column and row; rows are fractions where a column is centred beside a longer one."""

    column: int
    row: float


@dataclass(frozen=True, slots=True)
class Line:
    """From an agent to one that it needs, by way of `through`."""

    source: str
    target: str
    through: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where each agent stands; `alone` are those that no line reaches, and they have no place."""

    places: Mapping[str, Place]
    lines: tuple[Line, ...]
    alone: tuple[str, ...]

    @property
    def columns(self) -> int:
        """How many columns there are."""
        return 1 + max((place.column for place in self.places.values()), default=-1)

    @property
    def rows(self) -> int:
        """How many rows the longest column has."""
        beside = (place for line in self.lines for place in line.through)
        return 1 + int(max((place.row for place in (*self.places.values(), *beside)), default=-1))


type _Spot = tuple[str, str, int]
"""An agent (source, "", 0), or the n-th stop of a line (source, target, n)."""


def lay_out(needs: Mapping[str, Iterable[str]]) -> Layout:
    """Columns and rows for an acyclic graph; every name that is needed is a key."""
    edges = [(source, target) for source, targets in needs.items() for target in targets]
    joined = {name for edge in edges for name in edge}
    columns = _columns({name: needs[name] for name in needs if name in joined})
    ranks: list[list[_Spot]] = [[] for _ in range(1 + max(columns.values(), default=-1))]
    for name, column in columns.items():
        ranks[column].append((name, "", 0))
    chains: dict[tuple[str, str], list[_Spot]] = {}
    neighbours: dict[_Spot, list[_Spot]] = {spot: [] for rank in ranks for spot in rank}
    for source, target in edges:
        stops = [(source, target, n) for n in range(1, columns[target] - columns[source])]
        for stop in stops:
            ranks[columns[source] + stop[2]].append(stop)
            neighbours[stop] = []
        chain: list[_Spot] = [(source, "", 0), *stops, (target, "", 0)]
        for one, other in pairwise(chain):
            neighbours[one].append(other)
            neighbours[other].append(one)
        chains[source, target] = stops
    places = _rows(_untangle(ranks, neighbours))
    return Layout(
        places={name: places[name, "", 0] for name in columns},
        lines=tuple(
            Line(source, target, tuple(places[stop] for stop in stops))
            for (source, target), stops in chains.items()
        ),
        alone=tuple(name for name in needs if name not in joined),
    )


def _columns(needs: Mapping[str, Iterable[str]]) -> dict[str, int]:
    """Each one's column: one to the right of the rightmost that needs it."""
    columns = dict.fromkeys(needs, 0)
    for name in reversed(tuple(TopologicalSorter(needs).static_order())):
        for need in needs[name]:
            columns[need] = max(columns[need], columns[name] + 1)
    return columns


def _untangle(ranks: list[list[_Spot]], neighbours: Mapping[_Spot, list[_Spot]]) -> list[list[_Spot]]:
    """Order each column by the mean position of its neighbours in the column beside it, there and back."""
    column_of = {spot: column for column, rank in enumerate(ranks) for spot in rank}
    for sweep in range(SWEEPS):
        forth = sweep % 2 == 0
        order = range(1, len(ranks)) if forth else range(len(ranks) - 2, -1, -1)
        for column in order:
            beside = column - 1 if forth else column + 1
            position = {spot: index for index, spot in enumerate(ranks[beside])}
            wish = {
                spot: fmean(near)
                if (near := [position[n] for n in neighbours[spot] if column_of[n] == beside])
                else float(index)
                for index, spot in enumerate(ranks[column])
            }
            ranks[column].sort(key=wish.__getitem__)
    return ranks


def _rows(ranks: list[list[_Spot]]) -> dict[_Spot, Place]:
    longest = max(map(len, ranks), default=0)
    return {
        spot: Place(column, index + (longest - len(rank)) / 2)
        for column, rank in enumerate(ranks)
        for index, spot in enumerate(rank)
    }
