"""What the calls of one worker have learnt of its downstream servers, and what one instance has to do without.

Pure data. Must not know how a server is talked to.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    type ObserveOperation = Callable[[str, str, bool, float], None]
    """Told of each downstream operation: server, kind (as `tools/call`), whether it went well, seconds."""

SLOW_ATTACH = 1.0
AVOID_FOR = 15.0
"""A server that let a call wait for `SLOW_ATTACH` seconds and never answered is left out for so many seconds."""


@dataclass(slots=True)
class Reachability:
    """What the calls of one worker have learnt of its downstream servers."""

    avoided: dict[str, float] = field(default_factory=dict)
    """Until when, on the monotonic clock, a server is not tried again."""
    down: set[str] = field(default_factory=set)
    """The servers that could not be attached the last time, so that each outage is told once."""
    losses: int = 0
    """How often a server has been lost: what was connected before the newest loss may be connected to nothing."""


@dataclass(slots=True)
class Attachments:
    """What the parts of one instance share; it travels in the instance's own fast-agent context."""

    observe: ObserveOperation
    reachability: Reachability
    deferred: frozenset[str] = frozenset()
    """The servers that are attached only when it is known whose call it is."""
    unreachable: dict[str, str] = field(default_factory=dict)
    """The servers that the instance has to do without, and why."""
    aggregators: list[Any] = field(default_factory=list)
    """fast-agent's connections, one for each agent that has any: what has to be closed."""
