"""Which tool calls of a model may run. Pure.

Knows one call; must not know how it is made, or how an agent comes to its tools.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LONGEST_NAME = 100
"""Characters of a tool's name, as a model or a server gives it, that are repeated."""
MOST_NAMES = 50
"""Names of other tools that are listed: the model has the whole list, and servers may have any number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """What a model wants to be done."""

    agent: str
    """The agent's name; the copy of one that another agent calls has its number behind it: `child[1]`."""
    server: str | None
    """The downstream server that has the tool; None of all others: functions, child agents, shells."""
    tool: str
    """The tool's name, as the server knows it if there is one."""
    arguments: Mapping[str, Any]
    listed: bool
    """Whether the tool is in the list that the model gets, which leaves out what a filter hides."""


def refusal(call: ToolCall, available: Sequence[str]) -> str | None:
    """Why the call must not run, in words for the model; None if it may.

    `available` are the names of all tools of the agent, as its model gets them.
    """
    if call.listed:
        return None
    refused = f"the tool {call.tool[:LONGEST_NAME]!r} is not available to this agent"
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
