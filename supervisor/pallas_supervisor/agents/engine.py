"""The one owner of mutable state: takes events, steps the machine, carries out effects, reconciles.

Knows the event loop's clock and a `Processes` driver; nothing of system calls, sockets or HTTP. Everything runs on
the loop's thread; `post` may be called from anywhere on it, also from within an effect.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import deque
from typing import TYPE_CHECKING, Protocol

from pallas_common.logs.setup import get_logger
from pallas_supervisor.agents.observers import AgentObservers, attempt
from pallas_supervisor.lifecycle.effects import (
    CountRestart,
    Effect,
    Kill,
    ObserveStart,
    Reap,
    ReplacementFailed,
    SetSecondWorkerTimer,
    SetTimer,
    Spawn,
    Terminate,
)
from pallas_supervisor.lifecycle.events import (
    Arm,
    BeginReplacement,
    CancelReplacement,
    DependenciesReady,
    DependencyLost,
    Died,
    Elapsed,
    Event,
    KillNow,
    SecondWorkerElapsed,
    Start,
    Stop,
)
from pallas_supervisor.lifecycle.states import (
    Agent,
    Desired,
    SecondWorkerState,
    State,
    Transition,
    WorkerId,
    label,
)
from pallas_supervisor.lifecycle.table import step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pallas_supervisor.lifecycle.dependencies import Graph
    from pallas_supervisor.lifecycle.states import Policy

RECONCILE_INTERVAL = 30.0
"""Seconds between looks at everything, should an event ever have been missed."""

_log = get_logger("pallas.supervisor.engine")


class Processes(Protocol):
    """What the engine needs done; each call returns at once and answers with events."""

    def spawn(self, worker_id: WorkerId) -> None:
        """Answer with exactly one `Spawned` or `SpawnFailed`, later with `Ready`, `Died`."""

    def terminate(self, worker_id: WorkerId) -> None:
        """Send SIGTERM."""

    def kill(self, worker_id: WorkerId, reason: str | None = None) -> None:
        """Send SIGKILL to the whole group; `reason` goes into the exit."""

    def reap(self, worker_id: WorkerId) -> None:
        """Answer with `Reaped` once nothing is left."""


class Engine:
    """Steps every agent's machine.

    Args:
        processes: carries out what the machine asks for.
        graph: the dependencies between the agents.
        policies: the agents' rules; its names are the graph's.
        rng: draws the jitter of the back-off.
        max_surge: how many agents may have a second worker, for a graceful replacement, at a time.
        observers: called when something happens to an agent.
    """

    def __init__(
        self,
        processes: Processes,
        graph: Graph,
        policies: Mapping[str, Policy],
        rng: random.Random | None = None,
        max_surge: int = 1,
        observers: AgentObservers | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._processes = processes
        self._rng = rng or random.Random()  # noqa: S311 - jitter, not cryptography
        self._mailbox: deque[tuple[str, Event]] = deque()
        self._draining = False
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._second_worker_timers: dict[str, asyncio.TimerHandle] = {}
        self._changed: set[asyncio.Future[None]] = set()
        self._unreconciled: set[str] = set()
        """Agents of which something may follow for them or for others, since the last reconciliation."""
        self._due: set[str] = set()
        """Agents that are to be replaced gracefully, as soon as it is their turn."""
        self._surging: set[str] = set()
        """Agents with a second worker for a while."""
        self.shutting_down = False
        self.graph = graph
        self.max_surge = max_surge
        self.observers = observers or AgentObservers()
        now = self.now()
        self.unkillable: dict[str, Agent] = {}
        """Agents that a reload has removed and of which a process is left that cannot be killed."""
        self.agents: dict[str, Agent] = {
            name: Agent(name=name, policy=policy, since=now) for name, policy in policies.items()
        }
        self._reconciliation = self._loop.call_later(RECONCILE_INTERVAL, self._look_again)

    def now(self) -> float:
        """Seconds on the loop's clock, which all decisions use."""
        return self._loop.time()

    # --- commands -----------------------------------------------------------------------------------------

    def start(self, names: Iterable[str]) -> tuple[str, ...]:
        """Want a worker of each of these agents now, and all that they depend on up; all of them, in start order."""
        wanted = set(names)
        needed = self.graph.needed_by(wanted)
        for name in needed:
            self.post(name, Start() if name in wanted else Arm())
        return needed

    def arm(self, names: Iterable[str]) -> None:
        """Want these agents and all that they depend on up: running, or idle if they start on demand."""
        for name in self.graph.needed_by(names):
            self.post(name, Arm())

    async def shut_down(self) -> None:
        """Stop everything, dependents before what they depend on, and return when nothing is left."""
        self.shutting_down = True
        self._reconcile_all()
        await self.until(lambda: not any(self._moving(agent) for agent in self.agents.values()))
        self.close()

    def kill_all(self) -> None:
        """End every worker without grace."""
        for name, agent in self.agents.items():
            for generation in agent.generations:
                self.post(name, KillNow(generation))

    def close(self) -> None:
        """Let no timer run any more."""
        for timer in (self._reconciliation, *self._timers.values(), *self._second_worker_timers.values()):
            timer.cancel()

    async def until(self, reached: Callable[[], bool]) -> None:
        """Return as soon as `reached()` holds; it is asked after every change of any agent."""
        while not reached():
            change: asyncio.Future[None] = self._loop.create_future()
            self._changed.add(change)
            try:
                await change
            finally:
                self._changed.discard(change)

    def prove_alive(self) -> bool:
        """Look at everything now; whether that ran through and all mail is worked off. For the watchdog."""
        try:
            self._reconcile_all()
        except Exception:  # noqa: BLE001 - whatever it is, it is no proof
            _log.exception("the engine cannot work off its mail")
            return False
        return not self._mailbox

    def redefine(self, graph: Graph, policies: Mapping[str, Policy], max_surge: int | None = None) -> None:
        """Take on another set of agents; those that leave must be at rest, new ones begin as STOPPED."""
        now = self.now()
        self.graph = graph
        self.max_surge = self.max_surge if max_surge is None else max_surge
        gone = {name: agent for name, agent in self.agents.items() if name not in policies}
        self.unkillable |= {name: agent for name, agent in gone.items() if agent.has_process}
        self.agents = {
            name: self.agents.get(name) or Agent(name=name, policy=policy, since=now)
            for name, policy in policies.items()
        }
        for timers in (self._timers, self._second_worker_timers):
            for name in timers.keys() - self.agents.keys() - self.unkillable.keys():
                timers.pop(name).cancel()
        self._due.intersection_update(self.agents)
        self._surging.intersection_update(self.agents)
        self._reconcile_all()

    # --- events -------------------------------------------------------------------------------------------

    def post(self, name: str, event: Event) -> None:
        """Put an event into the agent's mailbox and, unless that is going on already, work all mail off."""
        self._mailbox.append((name, event))
        self._work_off()

    def _work_off(self) -> None:
        if self._draining:
            return
        self._draining = True
        try:
            while self._mailbox or self._unreconciled:
                while self._mailbox:
                    self._handle(*self._mailbox.popleft())
                self._reconcile()
        finally:
            self._draining = False
        self._wake()

    def _wake(self) -> None:
        for change in self._changed:
            if not change.done():
                change.set_result(None)

    def _handle(self, name: str, event: Event) -> None:
        before = self.agents.get(name) or self.unkillable.get(name)
        if before is None:  # an event of an agent that a reload has removed
            return
        taken = step(before, event, now=self.now(), draw=self._rng.random())
        after = taken.agent
        if name in self.agents:
            self._keep(before, after)
        elif after.has_process:
            self.unkillable[name] = after
        else:
            del self.unkillable[name]
        self._cancel_timers(before, after)
        if isinstance(event, Died) and before.may_live(event.generation) and name in self.agents:
            self.observers.ended(before, event)
        if _seen(before) != _seen(after):
            self.observers.transition(Transition(before, after))
        if before.is_available and not after.is_available and name in self.agents:
            for dependent in self.graph.dependents(name):
                self._mailbox.append((dependent, DependencyLost(name)))
        for effect in taken.effects:
            attempt(self._carry_out, name, effect)  # a defect elsewhere must not cost an agent its timer

    def _cancel_timers(self, before: Agent, after: Agent) -> None:
        if after.timer_epoch != before.timer_epoch and (timer := self._timers.pop(after.name, None)):
            timer.cancel()
        if _stage(after) != _stage(before) and (timer := self._second_worker_timers.pop(after.name, None)):
            timer.cancel()

    def _keep(self, before: Agent, after: Agent) -> None:
        """Take on what became of an agent, and note of whom something may follow from it."""
        name = after.name
        self.agents[name] = after
        if after == before:
            return
        self._unreconciled.add(name)
        if self.shutting_down:
            self._unreconciled.update(self.graph.dependencies(name))
        elif after.is_available and not before.is_available:
            self._unreconciled.update(self.graph.dependents(name))
        for names, belongs in ((self._due, after.replace is not None), (self._surging, after.is_surging)):
            (names.add if belongs else names.discard)(name)

    def _carry_out(self, name: str, effect: Effect) -> None:
        match effect:
            case Spawn(generation):
                self._processes.spawn(WorkerId(name, generation))
            case Terminate(generation):
                self._processes.terminate(WorkerId(name, generation))
            case Kill(generation, reason):
                self._processes.kill(WorkerId(name, generation), reason)
            case Reap(generation):
                self._processes.reap(WorkerId(name, generation))
            case SetTimer(timer_epoch, seconds):
                self._set(self._timers, name, seconds, Elapsed(timer_epoch))
            case SetSecondWorkerTimer(generation, state, seconds):
                elapsed = SecondWorkerElapsed(generation, state)
                self._set(self._second_worker_timers, name, seconds, elapsed)
            case ReplacementFailed(cause, message):
                self._give_up_rolling(name, cause, message)
            case CountRestart(reason):
                self.observers.restart_counted(name, reason)
            case ObserveStart(seconds):
                self.observers.start_observed(name, seconds)

    def _set(self, timers: dict[str, asyncio.TimerHandle], name: str, seconds: float, event: Event) -> None:
        if (earlier := timers.get(name)) is not None:
            earlier.cancel()
        timers[name] = self._loop.call_later(seconds, self.post, name, event)

    def _give_up_rolling(self, name: str, cause: str, message: str) -> None:
        """A restart that the operator asked for stops at the first agent that does not come up again."""
        _log.error(f"{label(name)}: could not be replaced: {message}", agent=label(name))
        if cause == "operator":
            for other, agent in self.agents.items():
                if agent.replace == cause:
                    _log.warning(f"{other}: not restarted, because {name} could not be", agent=other)
                    self.post(other, CancelReplacement())

    # --- reconciliation -----------------------------------------------------------------------------------

    def _reconcile_all(self) -> None:
        self._unreconciled.update(self.agents)
        self._work_off()

    def _reconcile(self) -> None:
        """Say what follows from the states of several agents: who may start, who may stop now.

        Only for those of whom something may follow since the last time: among a thousand agents these are few.
        """
        changed = self.graph.in_start_order(self._unreconciled & self.agents.keys())
        self._unreconciled.clear()
        if self.shutting_down:
            for name in reversed(changed):
                if self._stoppable(name):
                    self.post(name, Stop())
            return
        for name in changed:
            if self.agents[name].state is State.WAITING and not self.awaited(name):
                self.post(name, DependenciesReady())
        if not self._due:
            return
        free = self.max_surge - len(self._surging)
        turns = filter(self._replaceable, self.graph.in_start_order(self._due))
        for name in itertools.islice(turns, max(free, 0)):
            self.post(name, BeginReplacement())

    def _replaceable(self, name: str) -> bool:
        """Whether the agent is to be replaced and may be now: after all that it depends on."""
        agent = self.agents[name]
        if agent.replace is None or agent.second_worker is not None:
            return False
        needs = (self.agents[need] for need in self.graph.dependencies(name))
        return not any(need.replace is not None or need.is_replacing for need in needs)

    def _stoppable(self, name: str) -> bool:
        if self.agents[name].desired is Desired.DOWN:
            return False
        return not any(self._moving(self.agents[dependent]) for dependent in self.graph.dependents(name))

    @staticmethod
    def _moving(agent: Agent) -> bool:
        # A process that cannot be killed must not hold up the rest for ever.
        return agent.desired is Desired.UP or agent.state not in (State.STOPPED, State.FAILED)

    def awaited(self, name: str) -> tuple[str, ...]:
        """What `name` depends on and is not available."""
        return tuple(need for need in self.graph.dependencies(name) if not self.agents[need].is_available)

    def _look_again(self) -> None:
        self._reconciliation = self._loop.call_later(RECONCILE_INTERVAL, self._look_again)
        self._reconcile_all()


def _stage(agent: Agent) -> tuple[int, SecondWorkerState] | None:
    return (
        None if agent.second_worker is None else (agent.second_worker.generation, agent.second_worker.state)
    )


def _seen(agent: Agent) -> tuple[object, ...]:
    return agent.state, agent.generation, agent.replace, _stage(agent)
