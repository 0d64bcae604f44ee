"""What the calls of one worker have learnt of its downstream servers, and what one instance has to do without.

Knows time. Must not know how a server is talked to.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pallas_common.logs.setup import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from weakref import ReferenceType

    from pallas_common.protocol.agent.sibling import Sibling

    type ObserveOperation = Callable[[str, str, bool, float], None]
    """Called for each downstream operation: server, kind (as `tools/call`), whether it went well, seconds."""

    type Listener = Callable[[str, str | None], None]
    """Called for a server that calls cannot use, and why, or that they can again (None)."""

SLOW_ATTACH = 1.0
AVOID_FOR = 15.0
"""A server that let a call wait for `SLOW_ATTACH` seconds and never answered is left out for so many seconds."""

REMEMBER_FOR = 15.0
"""Seconds for which a server that does not know who calls is believed what it is, and what it has to offer."""

MOST_DOUBLES = 1_000
"""Tools of one name that are warned of."""

_AGENTS_TOOLS = ("agent-", "chat", "ask_agent", "send_message")
"""How tools of the gateway begin that ask an agent."""

_log = get_logger("pallas.worker.reachability")


@dataclass(slots=True)
class Reachability:
    """What the calls of one worker have learnt of its downstream servers."""

    avoided: dict[str, float] = field(default_factory=dict)
    """Until when, on the monotonic clock, a server is not tried again."""
    down: dict[str, str] = field(default_factory=dict)
    """The servers that could not be attached the last time, and why."""
    watched: frozenset[str] = frozenset()
    """Those whose state `listener` reports."""
    listener: Listener | None = None
    listings: dict[tuple[str, str], tuple[float, bytes]] = field(default_factory=dict)
    """Answers of servers that do not depend on the caller: by kind and server, when it came, and the JSON."""
    versions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The protocol versions that a server named when it was asked last; none, where it wanted a handshake."""
    incomplete: dict[tuple[str, str], str] = field(default_factory=dict)
    """What is missing in a server's list: by server and list."""
    doubles: set[tuple[str, str, str]] = field(default_factory=set)
    """Tools of one full name, and the two servers that have them: told once."""
    losses: int = 0
    """How often a server has been lost: what was connected before the newest loss may be connected to nothing."""

    @property
    def watched_down(self) -> Mapping[str, str]:
        """Those of `down` that are `watched`; of all others, an attempt says nothing about the next caller's."""
        return {server: why for server, why in self.down.items() if server in self.watched}

    def unattached(self, server: str, why: str) -> bool:
        """The server could not be attached; whether it could be before. Each outage is logged once."""
        news = server not in self.down
        self.down[server] = why
        if server not in self.watched:
            if news:
                _log.warning(f"cannot attach {server}: {why}", server=server)
        elif self.listener is not None:
            self.listener(server, why)
        return news

    def attached(self, server: str) -> None:
        """The server has been attached."""
        if self.down.pop(server, None) is None:
            return
        if server not in self.watched:
            _log.info(f"{server} can be attached again", server=server)
        elif self.listener is not None:
            self.listener(server, None)

    def remember(self, kind: str, server: str, listing: bytes) -> None:
        """Keep a server's answer."""
        self.listings[kind, server] = (time.monotonic(), listing)

    def remembered(self, kind: str, server: str) -> bytes | None:
        """The server's answer, if it is at most `REMEMBER_FOR` seconds old."""
        made, listing = self.listings.get((kind, server), (-REMEMBER_FOR, b""))
        return listing if time.monotonic() - made < REMEMBER_FOR else None

    def listed(self, server: str, kind: str, missing: str) -> None:
        """A list of the server has been read, and this is missing in it; nothing, if that is empty."""
        if not missing:
            self.incomplete.pop((server, kind), None)
        elif missing != self.incomplete.get((server, kind)):
            self.incomplete[server, kind] = missing
            _log.warning(f"{server}: {missing}", server=server)

    def doubled(self, tool: str, first: str, second: str) -> None:
        """Two servers have a tool of one full name; that of the second is left out."""
        if (tool, first, second) not in self.doubles and len(self.doubles) < MOST_DOUBLES:
            self.doubles.add((tool, first, second))
            _log.warning(
                f"two tools are called {tool}: that of the server {second} is left out, that of {first} is used; "
                "give one of the servers another name",
                server=second,
            )

    def missing(self, server: str) -> str | None:
        """What is missing in the server's lists, for people; None where nothing is, as far as is known."""
        return "; ".join(said for (name, _), said in self.incomplete.items() if name == server) or None

    def introduce(self, server: str, versions: tuple[str, ...]) -> None:
        """The server has said what it is; if that has changed, what was connected is not used any more."""
        if self.versions.setdefault(server, versions) != versions:
            self.versions[server] = versions
            self.lose(server)

    def doubt(self, server: str) -> None:
        """Something has gone wrong with the server; whether it is still what it was, the next instance asks."""
        self.listings.pop(("discover", server), None)

    def lose(self, server: str) -> None:
        """The server could not be reached, or has failed: what is known of it counts no more."""
        self.losses += 1
        for key in [key for key in self.listings if key[1] == server]:
            del self.listings[key]


@dataclass(slots=True)
class Attachments:
    """What the parts of one instance share; it travels in the instance's own fast-agent context."""

    observe: ObserveOperation
    reachability: Reachability
    deferred: frozenset[str] = frozenset()
    """The servers that are attached only when it is known whose call it is."""
    callers: frozenset[str] = frozenset()
    """The servers that know whose call it is."""
    siblings: Mapping[str, Sibling] = field(default_factory=dict)
    """The servers that are agents and are connected to when a tool of theirs is called."""
    agents: frozenset[str] = frozenset()
    """All servers that are agents of the deployment."""
    gateways: frozenset[str] = frozenset()
    """Those that are its gateway."""
    unreachable: dict[str, str] = field(default_factory=dict)
    """The servers that the instance has to do without, and why."""
    sampled: list[Any] = field(default_factory=list)
    """The usage of the LLMs that servers have asked, as fast-agent accumulates it."""
    tool_calls: Counter[tuple[str, Any]] = field(default_factory=Counter)
    """The tool calls of its models, by server and outcome; see `fastagent.tools.running`."""
    aggregators: list[Any] = field(default_factory=list)
    """fast-agent's connections, one for each agent that has any: what has to be closed."""
    clients: Collection[Any] | None = None
    """The HTTP clients of its LLMs, as far as they are known: what has to be closed, too. None until a call has it."""
    asked: list[ReferenceType[Any]] = field(default_factory=list)
    """The LLMs, and the agents that have them, also clones made during the call: what has to be taken apart."""

    def asks_agent(self, server: str, tool: str) -> bool:
        """Whether a call of the tool asks another agent of the deployment."""
        if server in self.gateways:
            return tool.startswith(_AGENTS_TOOLS)
        return server in self.agents
