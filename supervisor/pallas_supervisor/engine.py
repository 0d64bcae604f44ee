"""The one owner of mutable state: takes events, steps the machine, carries out effects, reconciles.

Knows the event loop's clock and a `Processes` driver; nothing of system calls, sockets or HTTP. Everything runs on
the loop's thread; `post` may be called from anywhere on it, also from within an effect.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pallas_supervisor.machine import step
from pallas_supervisor.states import (
    Agent,
    CountRestart,
    DependenciesReady,
    DependencyLost,
    Desired,
    Effect,
    Elapsed,
    Event,
    Kill,
    ObserveStart,
    SetTimer,
    Spawn,
    Start,
    State,
    Stop,
    Sweep,
    Terminate,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pallas_supervisor.graph import Graph
    from pallas_supervisor.states import Policy

RECONCILE_INTERVAL = 30.0
"""Seconds between looks at everything, should an event ever have been missed."""

_log = logging.getLogger("pallas.supervisor.engine")


class Processes(Protocol):
    """What the engine needs done; each call returns at once and answers with events."""

    def spawn(self, name: str, generation: int) -> None:
        """Answer with exactly one `Spawned` or `SpawnFailed`, later with `Ready`, `Died`."""

    def terminate(self, name: str, generation: int) -> None:
        """Send SIGTERM."""

    def kill(self, name: str, generation: int) -> None:
        """Send SIGKILL to the whole group."""

    def sweep(self, name: str, generation: int) -> None:
        """Answer with `Swept` once nothing is left."""


@dataclass(frozen=True, slots=True)
class Transition:
    """One state change, for observers."""

    before: Agent
    after: Agent


class Engine:
    """Steps every agent's machine.

    Args:
        processes: carries out what the machine asks for.
        graph: the dependencies between the agents.
        policies: the agents' rules; its names are the graph's.
        rng: draws the jitter of the back-off.
    """

    def __init__(
        self,
        processes: Processes,
        graph: Graph,
        policies: Mapping[str, Policy],
        rng: random.Random | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._processes = processes
        self._rng = rng or random.Random()  # noqa: S311 - jitter, not cryptography
        self._mailbox: deque[tuple[str, Event]] = deque()
        self._draining = False
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._changed: set[asyncio.Future[None]] = set()
        self.shutting_down = False
        self.graph = graph
        now = self.now()
        self.agents: dict[str, Agent] = {
            name: Agent(name=name, policy=policy, since=now) for name, policy in policies.items()
        }
        self.transition_observers: list[Callable[[Transition], None]] = []
        self.restart_observers: list[Callable[[str, str], None]] = []
        self.start_observers: list[Callable[[str, float], None]] = []
        self._reconciliation = self._loop.call_later(RECONCILE_INTERVAL, self._reconcile_again)

    def now(self) -> float:
        """Seconds on the loop's clock, which all decisions use."""
        return self._loop.time()

    # --- commands -----------------------------------------------------------------------------------------

    def start(self, names: Iterable[str]) -> tuple[str, ...]:
        """Want these agents and all that they depend on up; the names that this concerns, in start order."""
        needed = self.graph.needed_by(names)
        for name in needed:
            self.post(name, Start())
        return needed

    async def shut_down(self) -> None:
        """Stop everything, dependents before what they depend on, and return when nothing is left."""
        self.shutting_down = True
        self._reconcile()
        await self.until(lambda: not any(self._moving(agent) for agent in self.agents.values()))
        self._reconciliation.cancel()

    async def until(self, reached: Callable[[], bool]) -> None:
        """Return as soon as `reached()` holds; it is asked after every change of any agent."""
        while not reached():
            change: asyncio.Future[None] = self._loop.create_future()
            self._changed.add(change)
            try:
                await change
            finally:
                self._changed.discard(change)

    def redefine(self, graph: Graph, policies: Mapping[str, Policy]) -> None:
        """Take on another set of agents; those that leave must be STOPPED, new ones begin as STOPPED."""
        now = self.now()
        self.graph = graph
        self.agents = {
            name: self.agents.get(name) or Agent(name=name, policy=policy, since=now)
            for name, policy in policies.items()
        }
        for name in self._timers.keys() - self.agents.keys():
            self._timers.pop(name).cancel()
        self._reconcile()
        self._wake()

    # --- events -------------------------------------------------------------------------------------------

    def post(self, name: str, event: Event) -> None:
        """Put an event into the agent's mailbox and, unless that is going on already, work all mail off."""
        self._mailbox.append((name, event))
        if self._draining:
            return
        self._draining = True
        try:
            while self._mailbox:
                self._handle(*self._mailbox.popleft())
                if not self._mailbox:
                    self._reconcile()
        finally:
            self._draining = False
        self._wake()

    def _wake(self) -> None:
        for change in self._changed:
            if not change.done():
                change.set_result(None)

    def _handle(self, name: str, event: Event) -> None:
        before = self.agents.get(name)
        if before is None:  # an event of an agent that a reload has removed
            return
        taken = step(before, event, now=self.now(), draw=self._rng.random())
        after = self.agents[name] = taken.agent
        if after.epoch != before.epoch and (timer := self._timers.pop(name, None)):
            timer.cancel()
        if after.state is not before.state:
            self._announce(Transition(before, after))
        for effect in taken.effects:
            self._attempt(self._carry_out, name, effect)

    def _announce(self, change: Transition) -> None:
        for observe in self.transition_observers:
            self._attempt(observe, change)
        if change.before.state is State.READY:
            for dependent in self.graph.dependents(change.after.name):
                self._mailbox.append((dependent, DependencyLost(change.after.name)))

    @staticmethod
    def _attempt[*Arguments](do: Callable[[*Arguments], None], *arguments: *Arguments) -> None:
        """Do it, and log it if it fails: a defect elsewhere must not cost an agent its timer."""
        try:
            do(*arguments)
        except Exception:  # noqa: BLE001 - whatever it is
            _log.exception("%s failed", getattr(do, "__qualname__", do))

    def _carry_out(self, name: str, effect: Effect) -> None:
        match effect:
            case Spawn(generation):
                self._processes.spawn(name, generation)
            case Terminate(generation):
                self._processes.terminate(name, generation)
            case Kill(generation):
                self._processes.kill(name, generation)
            case Sweep(generation):
                self._processes.sweep(name, generation)
            case SetTimer(epoch, seconds):
                self._timers[name] = self._loop.call_later(seconds, self.post, name, Elapsed(epoch))
            case CountRestart(reason):
                for count in self.restart_observers:
                    self._attempt(count, name, reason)
            case ObserveStart(seconds):
                for observe in self.start_observers:
                    self._attempt(observe, name, seconds)

    # --- reconciliation -----------------------------------------------------------------------------------

    def _reconcile(self) -> None:
        """Say what follows from the states of several agents: who may start, who may stop now."""
        if self.shutting_down:
            for name in self.graph.stop_order:
                if self._stoppable(name):
                    self.post(name, Stop())
            return
        for name in self.graph.start_order:
            if self.agents[name].state is State.WAITING and not self.awaited(name):
                self.post(name, DependenciesReady())

    def _stoppable(self, name: str) -> bool:
        if self.agents[name].desired is Desired.DOWN:
            return False
        return not any(self._moving(self.agents[dependent]) for dependent in self.graph.dependents(name))

    @staticmethod
    def _moving(agent: Agent) -> bool:
        # A process that cannot be killed must not hold up the rest for ever.
        return agent.desired is Desired.UP or agent.state not in (State.STOPPED, State.FAILED)

    def awaited(self, name: str) -> tuple[str, ...]:
        """What `name` depends on and is not READY."""
        return tuple(
            need for need in self.graph.dependencies(name) if self.agents[need].state is not State.READY
        )

    def _reconcile_again(self) -> None:
        self._reconciliation = self._loop.call_later(RECONCILE_INTERVAL, self._reconcile_again)
        self._reconcile()
