"""Another agent of the deployment: what is known of it without asking it.

Why: whoever connects to an agent that starts on demand wakes it. So an agent that has it among its servers is told
beforehand what it would answer, and connects when a tool of it is called. Two agents that have each other among their
servers start by the same: neither waits for the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_SIBLINGS = 200
"""That a worker is told of: those that its agent depends on come first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sibling:
    """What makes the list of its tools, and where it is reached."""

    name: str
    port: int
    title: str
    description: str
    output_schema: Mapping[str, object] | None = None
    on_demand: bool = True
    """Whether it starts on demand, so that nobody but a caller may connect."""
