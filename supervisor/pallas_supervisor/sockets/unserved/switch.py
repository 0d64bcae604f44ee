"""What is done on the agents' sockets while no worker serves: answered with 503, watched, or left alone, by state.

Knows states and sockets; nothing of processes. Where a worker is about to start, nobody answers: connections wait.
Where an agent is idle, they wait as well, and the first one wakes it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

from pallas_common.http.connections import Connections
from pallas_common.http.descriptors import share_of_descriptors
from pallas_supervisor.lifecycle.states import State
from pallas_supervisor.sockets.listeners import close_listeners
from pallas_supervisor.sockets.unserved.unavailable import Unavailable, UnavailableResponder
from pallas_supervisor.sockets.unserved.watch import SocketWatch

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping

    from pallas_supervisor.lifecycle.dependencies import Graph
    from pallas_supervisor.lifecycle.states import Agent, Transition

UNSERVED = frozenset({State.STOPPED, State.BACKOFF, State.FAILED})
"""States in which the supervisor answers for the agent, and for those that wait for it.

In all others connections wait for the worker, or wake it.
"""

SHARE, MOST = 1 / 8, 512
"""What all responders together may take of the descriptors, and how many connections they hold at most."""

FAILED_RETRY_AFTER = 30
"""Seconds after which it is worth asking a stopped or failed agent again."""


class Engine(Protocol):
    """The agents, what they wait for, and what time it is."""

    graph: Graph
    agents: dict[str, Agent]

    def awaited(self, name: str) -> tuple[str, ...]:
        """What `name` depends on and is not available."""

    def now(self) -> float:
        """Seconds on the clock of `retry_at`."""


class UnavailableResponders:
    """The listening sockets of all agents, with a responder on each that needs one, and a watch on those of idle ones.

    Args:
        listeners: one an agent; from now on only changed here.
        why: one line on why an agent is in its state.
        outlives: whether a socket is there for the next supervisor, too: it must not be shut down.
        wanted: called when a connection waits for an agent that is idle.
        what: how an agent is called in answers.
    """

    def __init__(
        self,
        engine: Engine,
        listeners: dict[str, socket.socket],
        why: Callable[[str], str],
        outlives: Callable[[socket.socket], bool],
        wanted: Callable[[str], None],
        what: Callable[[str], str] = "agent {}".format,
    ) -> None:
        self._engine = engine
        self._why = why
        self._what = what
        self._outlives = outlives
        self.listeners = listeners
        self._responders: dict[str, UnavailableResponder] = {}
        self.unserved: set[str] = set()
        """The agents that no worker serves, or is about to serve, though they are not idle."""
        self._watch = SocketWatch(wanted)
        limit = share_of_descriptors(SHARE, MOST)
        self._connections = Connections("ports of agents that nobody serves", limit)
        for name in listeners:
            self._open(name)
        self.switch()

    @property
    def answering(self) -> set[str]:
        """The agents that are answered for now."""
        return {name for name, responder in self._responders.items() if responder.is_on}

    @property
    def watched(self) -> set[str]:
        """The agents that the next connection wakes."""
        return self._watch.watched

    @property
    def agents(self) -> set[str]:
        """The agents that are answered for whenever they need it."""
        return set(self._responders)

    def replace(self, listeners: Mapping[str, socket.socket]) -> None:
        """Answer for these agents on these sockets, whenever no worker does; what they had before is closed."""
        for name in listeners.keys() & self.listeners.keys():
            self.agent_removed(name)
        for name, listener in listeners.items():
            self.listeners[name] = listener
            self._open(name)
        self.switch()

    def agent_removed(self, name: str) -> None:
        """Do not answer for the agent any more, and close its socket."""
        self._watch.drop(name)
        self.unserved.discard(name)
        if name in self.listeners:  # none could be had
            self._responders.pop(name).close()  # first: it listens on the socket
            close_listeners([self.listeners.pop(name)])

    def close(self) -> None:
        """Do not answer for any agent any more; the sockets stay as they are."""
        self._watch.retire()
        while self._responders:
            self._responders.popitem()[1].close()

    def _open(self, name: str) -> None:
        self._responders[name] = UnavailableResponder(
            self.listeners[name], lambda: self._unavailable(name), self._connections
        )

    def switch(self) -> None:
        """Do what each agent needs: answer for those that no worker serves or is about to serve, watch idle ones."""
        self.unserved.clear()
        for name in self._engine.graph.start_order:
            self._switch(name)

    def follow(self, change: Transition) -> None:
        """Do what the agent needs from now on, and those that wait for it."""
        moved = change.before.is_available != change.after.is_available
        changed = [change.after.name]
        while changed:
            name = changed.pop()
            if name not in self._engine.agents:  # removed, with a process that cannot be killed
                continue
            before = name in self.unserved
            self._switch(name)
            if moved or before != (name in self.unserved):
                changed.extend(self._engine.graph.dependents(name))
            moved = False

    def _switch(self, name: str) -> None:
        agent, engine = self._engine.agents[name], self._engine
        waits_in_vain = agent.state is State.WAITING and not self.unserved.isdisjoint(engine.awaited(name))
        starts_now = agent.retry_at is not None and agent.retry_at <= engine.now()
        unserved = (agent.state in UNSERVED and not starts_now) or waits_in_vain
        (self.unserved.add if unserved else self.unserved.discard)(name)
        if (responder := self._responders.get(name)) is not None:
            if unserved:  # one socket has one reader: the other one lets go of it first
                self._watch.drop(name)
            responder.switch(on=unserved)
            self._watch.switch(name, self.listeners[name], on=agent.state is State.IDLE)

    def retire(self) -> None:
        """Wake no agent any more, nor answer for those whose sockets outlive us: connections wait for the next one."""
        self._watch.retire()
        for name, responder in self._responders.items():
            if self._outlives(self.listeners[name]):
                responder.retire()

    def _unavailable(self, name: str) -> Unavailable:
        agent = self._engine.agents[name]
        why = self._why(name)
        retry_after = FAILED_RETRY_AFTER
        if agent.retry_at is not None:
            retry_after = max(math.ceil(agent.retry_at - self._engine.now()), 1)
        elif agent.state not in (State.STOPPED, State.FAILED):
            retry_after = 1
        return Unavailable(f"{self._what(name)} is {agent.state}" + (f": {why}" if why else ""), retry_after)
