"""Who answers on the agents' sockets while no worker does: one stand-in each, switched as states change.

Knows states and sockets; nothing of processes. Where a worker is about to start, nobody answers: connections wait.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

from pallas_common.http.connections import Connections
from pallas_common.http.descriptors import share_of_descriptors
from pallas_supervisor.lifecycle.states import State
from pallas_supervisor.sockets.unavailable import Unavailable, UnavailableResponder

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping

    from pallas_supervisor.lifecycle.dependencies import Graph
    from pallas_supervisor.lifecycle.states import Agent

UNSERVED = frozenset({State.STOPPED, State.BACKOFF, State.FAILED})
"""States in which the supervisor answers for the agent, and for those that wait for it.

In all others connections wait for the worker.
"""

SHARE, MOST = 1 / 8, 512
"""What all stand-ins together may take of the descriptors, and how many connections they hold at most."""

FAILED_RETRY_AFTER = 30
"""Seconds after which it is worth asking a stopped or failed agent again."""


class Engine(Protocol):
    """Knows what agents wait for, and what time it is."""

    graph: Graph

    def awaited(self, name: str) -> tuple[str, ...]:
        """What `name` depends on and is not READY."""

    def now(self) -> float:
        """Seconds on the clock of `retry_at`."""


class Hosts(Protocol):
    """The fleet, as far as it is answered for."""

    listeners: dict[str, socket.socket]
    outlives: Callable[[int], bool]

    @property
    def engine(self) -> Engine:
        """Who moves the agents."""

    @property
    def agents(self) -> Mapping[str, Agent]:
        """The agents as they are."""

    @property
    def ports(self) -> Mapping[str, int]:
        """The agents' ports."""

    def why(self, name: str) -> str:
        """One line on why the agent is in its state."""


class UnavailableResponders:
    """The responders of all agents."""

    def __init__(self, fleet: Hosts) -> None:
        self._fleet = fleet
        self._stand_ins: dict[str, UnavailableResponder] = {}
        limit = share_of_descriptors(SHARE, MOST)
        self._connections = Connections("ports of agents that nobody serves", limit)

    @property
    def answering(self) -> set[str]:
        """The agents that are answered for now."""
        return {name for name, stand_in in self._stand_ins.items() if stand_in.is_on}

    @property
    def agents(self) -> set[str]:
        """The agents that are answered for whenever they need it."""
        return set(self._stand_ins)

    def open(self, name: str) -> None:
        """Answer for the agent on its socket whenever no worker does."""
        listener = self._fleet.listeners[name]
        self._stand_ins[name] = UnavailableResponder(listener, lambda: self._absence(name), self._connections)
        self.switch()

    def close(self, name: str) -> None:
        """Do not answer for the agent any more; to be done before its socket is closed."""
        self._stand_ins.pop(name).close()

    def close_all(self) -> None:
        """Do not answer for any agent any more."""
        for name in list(self._stand_ins):
            self.close(name)

    def switch(self) -> None:
        """Answer for those agents that nobody serves and nobody is about to, and for no other."""
        engine, unserved = self._fleet.engine, set[str]()
        for name in engine.graph.start_order:
            agent = self._fleet.agents[name]
            waits_in_vain = agent.state is State.WAITING and not unserved.isdisjoint(engine.awaited(name))
            starts_now = agent.retry_at is not None and agent.retry_at <= engine.now()
            if (agent.state in UNSERVED and not starts_now) or waits_in_vain:
                unserved.add(name)
            if (stand_in := self._stand_ins.get(name)) is not None:
                stand_in.switch(on=name in unserved)

    def retire(self) -> None:
        """Answer no more for agents whose sockets outlive us: connections wait for the next supervisor."""
        for name, stand_in in self._stand_ins.items():
            if self._fleet.outlives(self._fleet.ports[name]):
                stand_in.retire()

    def _absence(self, name: str) -> Unavailable:
        agent = self._fleet.agents[name]
        why = self._fleet.why(name)
        retry_after = FAILED_RETRY_AFTER
        if agent.retry_at is not None:
            retry_after = max(math.ceil(agent.retry_at - self._fleet.engine.now()), 1)
        elif agent.state not in (State.STOPPED, State.FAILED):
            retry_after = 1
        return Unavailable(f"agent {name} is {agent.state}" + (f": {why}" if why else ""), retry_after)
