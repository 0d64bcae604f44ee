"""The settings that agents can share: what `defaults:` and an agent's entry in `agents.yaml` say, and workers get.

A field declares all that is to be known of it: its default, the values that it may have, and what a change of it means
for a running worker. The reader of the file, the plan of a reload and the worker's spec go by these declarations and
name no single setting, so that a new one is a field here and the place where it is used.
"""

from __future__ import annotations

from dataclasses import Field, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

if TYPE_CHECKING:
    from collections.abc import Mapping

RestartPolicy = Literal["always", "on-failure", "never"]
DependencyLossPolicy = Literal["keep", "restart"]
StartPolicy = Literal["always", "on-demand"]
OverflowPolicy = Literal["refuse", "shorten"]
LoopKind = Literal["uvloop", "asyncio"]

Effect = Literal["live", "respawn", "rebind", "fixed"]
"""What a change asks for: nothing, a new process, a new socket and process, or a restart of the supervisor."""

SLOW_AFTER = 1.0
MINIMUM_LIVENESS_INTERVAL = 0.1


class WholeNumber(NamedTuple):
    """A whole number, not below the minimum."""

    minimum: int


class Seconds(NamedTuple):
    """A number of seconds above 0, not below the minimum."""

    minimum: float = 0.0


class Size(NamedTuple):
    """An amount of memory in bytes, not below the minimum; the word `none` for None."""

    minimum: int


class Choice(NamedTuple):
    """One of several words."""

    words: tuple[str, ...]


class Truth(NamedTuple):
    """True or false."""


type Rule = WholeNumber | Seconds | Size | Choice | Truth


def on_change(effect: Effect) -> Mapping[str, object]:
    """The metadata of a field: what a change of it asks for."""
    return {"on_change": effect}


def setting(rule: Rule, effect: Effect) -> Mapping[str, object]:
    """The metadata of a setting: its values, and what a change of it asks for."""
    return {"rule": rule, **on_change(effect)}


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """In the order in which people read them. Times are in seconds, sizes in bytes."""

    start: StartPolicy = field(default="always", metadata=setting(Choice(get_args(StartPolicy)), "respawn"))
    """Whether a worker is there always, or only while somebody calls."""
    idle_timeout: float = field(default=300.0, metadata=setting(Seconds(0.1), "respawn"))
    """Without a call, after which the worker of an agent that starts on demand ends."""
    restart: RestartPolicy = field(
        default="always", metadata=setting(Choice(get_args(RestartPolicy)), "live")
    )
    start_timeout: float = field(default=60.0, metadata=setting(Seconds(), "live"))
    stop_timeout: float = field(default=10.0, metadata=setting(Seconds(), "live"))
    """How long a drain may take after SIGTERM."""
    max_failures: int = field(default=5, metadata=setting(WholeNumber(1), "live"))
    reset_after: float = field(default=60.0, metadata=setting(Seconds(), "live"))
    on_dependency_loss: DependencyLossPolicy = field(
        default="keep", metadata=setting(Choice(get_args(DependencyLossPolicy)), "live")
    )
    max_concurrency: int = field(default=32, metadata=setting(WholeNumber(1), "respawn"))
    """Calls that run at a time; the others wait."""
    max_queue: int = field(default=128, metadata=setting(WholeNumber(0), "respawn"))
    """Calls that wait at most; those beyond are refused."""
    max_returns: int = field(default=1, metadata=setting(WholeNumber(0), "respawn"))
    """How often a call that agents hand on to each other may come back to this one."""
    max_request_bytes: int = field(default=32 * 1024 * 1024, metadata=setting(WholeNumber(1024), "respawn"))
    """Bytes of one request's body: room for images in a long history."""
    context_overflow: OverflowPolicy = field(
        default="refuse", metadata=setting(Choice(get_args(OverflowPolicy)), "respawn")
    )
    """What becomes of a conversation that is too long for the model: an error, or an answer without its older turns."""
    loop: LoopKind = field(default="uvloop", metadata=setting(Choice(get_args(LoopKind)), "respawn"))
    """Whose event loop the agent's code runs in; `asyncio` for libraries that change Python's own, as nest_asyncio."""
    liveness_interval: float = field(
        default=5.0, metadata=setting(Seconds(MINIMUM_LIVENESS_INTERVAL), "respawn")
    )
    """From one heartbeat to the next."""
    liveness_misses: int = field(default=6, metadata=setting(WholeNumber(0), "live"))
    """Heartbeats that may fail to come; 0 to wait for ever."""
    memory_limit: int | None = field(default=None, metadata=setting(Size(192 * 1024**2), "respawn"))
    """Bytes that a worker may take, None if that is not limited. One that has just started takes 3/4 of the minimum."""
    slow_after: float = field(default=SLOW_AFTER, metadata=setting(Seconds(0.01), "respawn"))
    """Beyond which a health probe counts as slow."""
    overrides: bool = field(default=False, metadata=setting(Truth(), "respawn"))
    """Whether every caller may override the agent's instruction and model for a turn."""


RULES: Mapping[str, Rule] = {each.name: each.metadata["rule"] for each in fields(AgentSettings)}
"""Setting → the values that it may have, in the order of the fields."""


def settings_of(agent: AgentSettings) -> dict[str, Any]:
    """The settings alone, of whatever has them beside fields of its own."""
    return {name: getattr(agent, name) for name in RULES}


def effects(declared: tuple[Field[Any], ...]) -> dict[str, Effect]:
    """What a change of each of a dataclass's `fields` asks for; those of its own come before the settings."""
    own_first = sorted(declared, key=lambda each: each.name in RULES)
    return {each.name: each.metadata["on_change"] for each in own_first if "on_change" in each.metadata}
