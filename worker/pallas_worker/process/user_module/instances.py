"""The FastAgent in the user's module: by its name, as the only one, or from what makes it.

Knows fast-agent's application class, and what people call it.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fast_agent import FastAgent

from pallas_worker.interface.errors import AgentError

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from types import ModuleType

    from pallas_common.protocol.agent.source import AgentSource
    from pallas_worker.process.user_module.errors import UserCode

NAME = "fast"
"""What a module calls its FastAgent, unless the source says another name."""

MAX_NAMES = 5
"""Names that are listed."""


def find_instance(source: AgentSource, imported: ModuleType, code: UserCode) -> Any:
    """The FastAgent that `source` means, or what is to be called for it.

    Raises:
        AgentError: there is none, another thing of that name, or one of several was not chosen.
    """
    held: dict[str, object] = dict(getattr(imported, "__dict__", {}))
    if source.name is None:
        return _unnamed(source, held)
    found = held.get(source.name)
    if source.is_factory:
        if not callable(found):
            raise _refused(_without(source, held, source.name, found, "a function that returns a FastAgent"))
        return found
    if isinstance(found, FastAgent):
        return found
    if callable(found):
        place = code.place_of(found)
        raise _refused(
            f"{place}`{source.name}` of {source.path} is a {_kind(found)}, not a FastAgent; if it returns one, "
            f"write `module: {source.path}:{source.name}()` in agents.yaml"
        )
    raise _refused(_without(source, held, source.name, found, "a FastAgent"))


@dataclass(frozen=True, slots=True)
class PromisedInstance:
    """The FastAgent that a factory returns once it is awaited: in the loop that is to serve it."""

    name: str
    place: str
    awaitable: Awaitable[object]

    async def made(self) -> FastAgent:
        """Await it. What it raises is the user's.

        Raises:
            AgentError: it is something else.
        """
        return _as_instance(await self.awaitable, self.name, self.place)


def call_factory(source: AgentSource, factory: Any, code: UserCode) -> FastAgent | PromisedInstance:
    """Call the factory without arguments, and return what it makes. What it raises is the user's.

    Raises:
        AgentError: it wants arguments, or returns something else.
    """
    place = code.place_of(factory)
    try:
        inspect.signature(factory).bind()
    except TypeError as error:
        raise _refused(
            f"{place}`{source.name}` is called without arguments: {error}; give its parameters defaults"
        ) from None
    except ValueError:
        pass  # of some things in C, nothing is known
    made = factory()
    name = source.name or NAME
    return (
        PromisedInstance(name, place, made) if inspect.isawaitable(made) else _as_instance(made, name, place)
    )


def _as_instance(made: object, name: str, place: str) -> FastAgent:
    if isinstance(made, FastAgent):
        return made
    raise _refused(f"{place}`{name}()` returned {_article(made)}, not a FastAgent: return it")


def _unnamed(source: AgentSource, held: dict[str, object]) -> FastAgent:
    found = held.get(NAME)
    if isinstance(found, FastAgent):
        return found
    instances = _instances(held)
    if len({id(instance) for instance in instances.values()}) == 1:
        return next(iter(instances.values()))
    if instances:
        raise _refused(
            f"{source.path} has several FastAgents: {_listed(instances)}; say which one in agents.yaml, as in "
            f"`module: {source.path}:{next(iter(instances))}`"
        )
    raise _refused(_without(source, held, NAME, found, "a FastAgent"))


def _without(source: AgentSource, held: dict[str, object], name: str, found: object, wanted: str) -> str:
    """The complaint about a module that has nothing of that name, or another thing."""
    if name in held:
        wrong = f"`{name}` of {source.path} must be {wanted}, not {_article(found)}"
    else:
        wrong = f"{source.path} has no `{name}`"
    if instances := _instances(held):
        return f"{wrong}; it has {_listed(instances)}: write `module: {source.path}:{next(iter(instances))}`"
    if factory := next((each for each, value in held.items() if _makes_one(value)), None):
        return f"{wrong}; `{factory}` returns a FastAgent: write `module: {source.path}:{factory}()`"
    if source.is_factory:
        return f"{wrong}; mend `module:` in agents.yaml"
    return f"{wrong}: add {name} = FastAgent(...) at module level"


def _instances(held: dict[str, object]) -> dict[str, FastAgent]:
    return {name: value for name, value in held.items() if issubclass(type(value), FastAgent)}  # type: ignore[misc]


def _makes_one(value: object) -> bool:
    """Whether it is a function that says that it returns a FastAgent."""
    if not inspect.isfunction(value):
        return False
    said = value.__annotations__.get("return")
    return said is FastAgent or (isinstance(said, str) and said.rpartition(".")[2] == FastAgent.__name__)


def _listed(names: dict[str, FastAgent]) -> str:
    listed = ", ".join(f"`{name}`" for name in list(names)[:MAX_NAMES])
    return f"{listed}, …" if len(names) > MAX_NAMES else listed


def _kind(value: object) -> str:
    return "class" if isinstance(value, type) else "function"


def _article(value: object) -> str:
    return "None" if value is None else f"{type(value).__name__[:100]}"


def _refused(message: str) -> AgentError:
    return AgentError(message, permanent=True)
