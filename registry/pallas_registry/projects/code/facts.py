"""What is found in a project: agents, the applications that define them, agent cards, and what could not be told.

Knows no syntax and no file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from pallas_common.problems import Problem
    from pallas_registry.projects.code.constants import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """One agent, as a decorator or a card defines it."""

    name: str | None
    """None: it is computed, and only running the code would tell."""
    kind: str
    """The decorator's name, or the card's type: `agent`, `chain`, …"""
    file: str
    """Relative to the project's folder, with slashes."""
    line: int
    text: str | None = None
    """What says what the agent is for: its description or its instruction."""
    parts: tuple[str, ...] = ()
    """The agents that it is made of or calls as tools."""
    servers: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    """URLs and commands of MCP servers that the definition names itself."""
    has_model: bool = True
    """Whether it names a model, or needs none."""
    default: bool = False
    tool_only: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class Application:
    """One FastAgent that a module holds or a factory makes. Several files may define its agents."""

    file: str
    line: int
    name: str | None
    """What the FastAgent is called, as in `FastAgent("My App")`."""
    definitions: list[Definition] = field(default_factory=list)
    late: list[Definition] = field(default_factory=list)
    """Defined inside functions that nobody calls when the module is imported."""
    card_paths: list[str] = field(default_factory=list)
    """What it loads by `load_agents`, relative to the project's folder."""
    complete: bool = True
    """False: more agents may be defined where reading cannot follow."""
    port: int | None = None
    """Where its own file serves it (`start_server(port=…)`)."""
    docstring: str | None = None
    own_settings: bool = False
    """It names its settings file or its home itself."""


@dataclass(slots=True)
class Factory:
    """A function that returns a FastAgent."""

    application: Application
    required: tuple[str, ...]
    """Arguments without a default."""
    line: int


@dataclass(slots=True)
class PythonFile:
    """What importing the file does, as far as agents are concerned."""

    path: str
    applications: dict[str, Application] = field(default_factory=dict)
    """FastAgents by the names that the module has for them, its own and those that it imports."""
    factories: dict[str, Factory] = field(default_factory=dict)
    constants: dict[str, Value] = field(default_factory=dict)
    members: dict[str, list[str]] = field(default_factory=dict)
    """By class, the names of its constants: `Class.attribute` among the `constants`."""
    imports: set[str] = field(default_factory=set)
    """Paths of the project's files that it imports."""
    problems: list[Problem] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One agent card."""

    definition: Definition
    folder: str
    """`` is the project's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Something that an entry of agents.yaml can serve one agent of."""

    key: str
    """`module` or `card`."""
    value: str
    file: str
    line: int
    definitions: tuple[Definition, ...]
    served: Definition | None
    """None: which agents there are could not be told."""
    free_name: bool
    """Whether the entry may have any name: the source has one agent."""
    name: str | None = None
    """The FastAgent's own name."""
    port: int | None = None
    docstring: str | None = None
    own_settings: bool = False


@dataclass(slots=True)
class Notes:
    """What is said beside the result."""

    mend: list[Problem] = field(default_factory=list)
    """What the user has to change, with file, line and the edit."""
    unknown: list[str] = field(default_factory=list)
    """What could not be told by reading."""


def reach(name: str, definitions: Sequence[Definition]) -> set[str]:
    """The agents that the one called `name` is made of, itself included, as far as they are defined."""
    parts = {found.name: found.parts for found in definitions if found.name is not None}
    found: set[str] = set()
    waiting = [name]
    while waiting:
        each = waiting.pop()
        if each in parts and each not in found:
            found.add(each)
            waiting.extend(parts[each])
    return found


def without_model(source: Source) -> bool:
    """Whether the served agent, or one that it is made of, leaves its model to the settings."""
    chosen = source.served
    if chosen is None or chosen.name is None:
        return any(not found.has_model for found in source.definitions)
    inner = reach(chosen.name, source.definitions)
    return any(not found.has_model for found in source.definitions if found.name in inner)


def outermost(definitions: Iterable[Definition]) -> list[Definition]:
    """Those that no other one is made of."""
    every = list(definitions)
    inner: Collection[str] = {part for found in every for part in found.parts if part != found.name}
    return [found for found in every if found.name not in inner and not found.tool_only]


def served(definitions: Sequence[Definition]) -> Definition | None:
    """The agent that stands for all: the default, else the one that is made of most others, else the first."""
    for found in definitions:
        if found.default and not found.tool_only:
            return found
    candidates = outermost(definitions) or list(definitions)

    def extent(found: Definition) -> int:
        return len(reach(found.name, definitions)) if found.name is not None else 1

    return max(candidates, key=extent, default=None)
