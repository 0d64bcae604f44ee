"""Which tool calls of a model may run. Pure.

Knows names of tools; must not know how a call is made, or how an agent comes to its tools.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

LONGEST_NAME = 100
"""Characters of a tool's name, as a model or a server gives it, that are repeated."""
MOST_NAMES = 50
"""Names of other tools that are listed: the model has the whole list, and servers may have any number."""


def refusal(tool: str, available: Sequence[str]) -> str:
    """Why a call of `tool` does not run, in words for the model; `available` are the names of all tools that it has."""
    refused = f"the tool {tool[:LONGEST_NAME]!r} is not available to this agent"
    if not available:
        return f"{refused}; it has no tools"
    names = [name[:LONGEST_NAME] for name in sorted(available)[:MOST_NAMES]]
    more = f" and {len(available) - MOST_NAMES} more" if len(available) > MOST_NAMES else ""
    return f"{refused}; available tools: {', '.join(names)}{more}"


def resolve_name(name: str, listed: Sequence[str]) -> str | None:
    """The one tool of `listed` that a model means by `name`: models drop a server's prefix, or write capitals.

    `server__tool`, `SERVER__Tool` and `tool` → `server__tool`; None if there is none, or more than one.
    """
    if name in listed:
        return name
    for found in (
        [tool for tool in listed if tool.casefold() == name.casefold()],
        [tool for tool in listed if tool.endswith(f"__{name}")],
    ):
        if len(found) == 1:
            return found[0]
    return None
