"""A proposed deployment as data: what agents.yaml will say of each agent, and what its comments tell.

Knows no file and no rule by which it is made.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pallas_registry.deployment.agents_file import DEFAULT_REGISTRY_PORT
from pallas_registry.projects.code.facts import Notes, reach

if TYPE_CHECKING:
    from pallas_registry.projects.code.facts import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One agent of agents.yaml, and what its comments say."""

    name: str
    source: Source
    port: int = 0
    title: str
    description: str
    depends_on: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def others(self) -> list[str]:
        """Other agents of the same source, which could be served instead."""
        chosen = self.source.served
        every = [found.name for found in self.source.definitions if found.name and found is not chosen]
        inner = reach(chosen.name, self.source.definitions) if chosen and chosen.name else set()
        return [name for name in every if name not in inner]


@dataclass(slots=True, kw_only=True)
class Proposal:
    """What is to be written, and what is to be said."""

    name: str
    entries: list[Entry]
    registry_port: int = DEFAULT_REGISTRY_PORT
    left_out: list[str] = field(default_factory=list)
    """What was found and is not served, and why: one line each."""
    projects: tuple[str, ...] = ()
    """Folders below that are projects of their own."""
    notes: Notes = field(default_factory=Notes)
