"""How the model is asked to answer in one turn: the hints of `reference` chat parameters, checked.

Pure. Knows names, types and ranges; must not know providers, which differ in what they take (see `agent/parameters`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Those that are given; one that is not in `values` is as the agent's definition says."""

    values: Mapping[str, object]
    """Name → checked value; None clears the agent's default."""
    extra: Mapping[str, object]
    """For the request's body alone, as the provider names it."""
