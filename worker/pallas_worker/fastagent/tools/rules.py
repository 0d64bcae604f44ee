"""Which tool calls of a model run, which are refused, and before which the turn ends. Pure.

Knows names of tools; must not know how a call is made, or how an agent comes to its tools.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from pallas_worker.interface.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

LONGEST_NAME = 100
"""Characters of a tool's name, as a model or a server gives it, that are repeated."""
MOST_NAMES = 50
"""Names of other tools that are listed: the model has the whole list, and servers may have any number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCall:
    """One call that a model asks for, before it runs: all that there is to judge it by."""

    agent: str
    """Whose model asks: the served agent, or one that it is made of."""
    id: str
    """The model's own; unique among the calls of one message."""
    server: str | None
    """The downstream server that has the tool; None for one that no server has."""
    tool: str
    """As the agent lists it; as the model names it where the agent lists none such."""
    arguments: Mapping[str, object]
    """As the model gives them; they have not been checked."""
    available: Collection[str]
    """The tools that the agent may call in this turn."""
    hold: Patterns
    """Before calls of these, the turn is to end."""
    can_wait: bool
    """Whether the turn can end before this call, and be taken up there."""


@dataclass(frozen=True, slots=True)
class Run:
    """The call runs."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """The call does not run; the model reads the reason as its result, and goes on."""

    reason: str


@dataclass(frozen=True, slots=True)
class Hold:
    """The turn ends before the call, which stays pending."""


type Verdict = Run | Refuse | Hold

RUN = Run()
HOLD = Hold()


class Patterns:
    """Names of tools: exact ones, and what ends with `*`, which means all that begin so."""

    def __init__(self, patterns: Iterable[str]) -> None:
        known = frozenset(patterns)
        self._prefixes = tuple(pattern[:-1] for pattern in known if pattern.endswith("*"))
        self._exact = known

    def __bool__(self) -> bool:
        return bool(self._exact)

    def match(self, tool: str) -> bool:
        """Whether the tool is meant."""
        return tool in self._exact or tool.startswith(self._prefixes)


class Globs:
    """What an agent may call at all, by its definition: names of tools, in which `*` is any text and `?` any character.

    The one place where that is decided: for what a model is told of, and for what it calls.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self._patterns = tuple(dict.fromkeys(patterns))

    def permit(self, tool: str) -> bool:
        """Whether the tool may be called."""
        return any(_fits(tool, pattern) for pattern in self._patterns)

    def void(self, tools: Collection[str]) -> list[str]:
        """The patterns that mean none of these tools."""
        return [one for one in self._patterns if not any(_fits(tool, one) for tool in tools)]


def _fits(tool: str, pattern: str) -> bool:
    return fnmatchcase(tool, pattern.replace("[", "[[]"))  # which would begin a set of characters


async def judge(call: PendingCall) -> Verdict:
    """What becomes of a call. It may wait for somebody who decides, though it does not today."""
    if call.tool not in call.available:
        return Refuse(refusal(call.tool, call.available))
    if not call.hold.match(call.tool):
        return RUN
    if call.can_wait:
        return HOLD
    return Refuse(
        f"the tool {call.tool[:LONGEST_NAME]!r} may only be called after an approval, and a call inside "
        f"the agent {call.agent[:LONGEST_NAME]!r} cannot wait for one"
    )


def check_patterns(
    field: str,
    patterns: Collection[str],
    tools: Collection[str],
    unreachable: Collection[str] = (),
) -> None:
    """Refuse what cannot be meant: a pattern that is none, or that no tool has.

    Args:
        field: the argument, for the message.
        patterns: what it says.
        tools: of all agents that take part in the turn.
        unreachable: servers of theirs that cannot be asked now; what is said of their tools is believed.

    Raises:
        ArgumentError: names the first that is wrong.
    """
    for pattern in sorted(patterns):
        shown = repr(pattern[:LONGEST_NAME])
        if not pattern or "*" in pattern[:-1]:
            raise ArgumentError(
                f"{field}: {shown} must be a tool's name, or the beginning of names and *", field
            )
        meant = Patterns((pattern,))
        if pattern == "*" or any(map(meant.match, tools)) or _server_of(pattern) in unreachable:
            continue
        has = names(tools)
        raise ArgumentError(
            f"{field}: {shown} is no tool of this agent; " + (f"it has {has}" if has else "it has none"),
            field,
        )


def _server_of(pattern: str) -> str:
    return pattern.partition("__")[0]


def refusal(tool: str, available: Collection[str]) -> str:
    """Why a call of `tool` does not run, in words for the model; `available` are the names of all tools that it has."""
    refused = f"the tool {tool[:LONGEST_NAME]!r} is not available to this agent"
    if not available:
        return f"{refused}; it has no tools"
    return f"{refused}; available tools: {names(available)}"


def names(tools: Collection[str]) -> str:
    """The names for a message, in the order of the alphabet; the first `MOST_NAMES` of them."""
    listed = [name[:LONGEST_NAME] for name in sorted(tools)[:MOST_NAMES]]
    more = f" and {len(tools) - MOST_NAMES} more" if len(tools) > MOST_NAMES else ""
    return f"{', '.join(listed)}{more}"


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
