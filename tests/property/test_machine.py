"""The machine's promises, whatever happens in whatever order: the pure machine alone, and under the engine.

`PureMachine` throws every event at one agent, sensible or not. `Fleet` runs the real engine with simulated
processes, a clock of its own and four agents that depend on each other; processes only do
what processes can do.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from pallas_supervisor.lifecycle.dependencies import Graph
from pallas_supervisor.lifecycle.effects import SetSecondWorkerTimer, SetTimer, Spawn
from pallas_supervisor.lifecycle.events import (
    OF_GENERATION,
    Arm,
    BecameIdle,
    BeginReplacement,
    CancelReplacement,
    DependenciesReady,
    DependencyLost,
    Died,
    Elapsed,
    Event,
    HardRestart,
    KillNow,
    Ready,
    Reaped,
    Rebind,
    Redefine,
    RollingRestart,
    SecondWorkerElapsed,
    Spawned,
    SpawnFailed,
    Start,
    StartFailureReported,
    Stop,
    Unhealthy,
    Wanted,
)
from pallas_supervisor.lifecycle.second_worker import KILL_TIMEOUT
from pallas_supervisor.lifecycle.states import (
    RESTING,
    WITH_PROCESS,
    Agent,
    Desired,
    Exit,
    Policy,
    SecondWorkerState,
    State,
)
from pallas_supervisor.lifecycle.table import IGNORE, TABLE, step
from pallas_supervisor.sockets.unserved.switch import UnavailableResponders
from support.supervisor.fakes import Driven, FakeLoop, FakeProcess, FakeProcesses, make_engine

if TYPE_CHECKING:
    from collections.abc import Callable

    from pallas_supervisor.agents.engine import Engine
    from pallas_supervisor.lifecycle.states import Transition

TIMED = frozenset({State.STARTING, State.STOPPING, State.KILLING, State.BACKOFF})
"""States that hold a timer for as long as they last."""

policies = st.builds(
    Policy,
    start=st.sampled_from(["always", "on-demand"]),
    restart=st.sampled_from(["always", "on-failure", "never"]),
    start_timeout=st.sampled_from([5.0, 60.0]),
    stop_timeout=st.sampled_from([1.0, 10.0]),
    max_failures=st.integers(1, 4),
    reset_after=st.sampled_from([20.0, 60.0]),
    on_dependency_loss=st.sampled_from(["keep", "restart"]),
)
exits = st.one_of(
    st.sampled_from([0, 1, 70, 78]).map(lambda status: Exit(status=status)),
    st.sampled_from([9, 11, 15]).map(lambda number: Exit(signal=number)),
)


@dataclass(frozen=True)
class OffBy:
    """An event that belongs to the agent's own generation or epoch, or to one beside it."""

    event: Event
    distance: int

    def of(self, agent: Agent) -> Event:
        if isinstance(self.event, Elapsed):
            return Elapsed(agent.timer_epoch + self.distance)
        if isinstance(self.event, OF_GENERATION):
            return of_generation(self.event, agent.generation + self.distance)
        return self.event


@dataclass(frozen=True)
class OfSecondWorker:
    """An event of the second worker's, if there is one."""

    event: Event

    def of(self, agent: Agent) -> Event | None:
        if (second_worker := agent.second_worker) is None:
            return None
        if isinstance(self.event, SecondWorkerElapsed):
            return SecondWorkerElapsed(second_worker.generation, second_worker.state)
        return of_generation(self.event, second_worker.generation)


def of_generation(event: Event, generation: int) -> Event:
    """The event, of this generation; it is one that has any."""
    changed: Any = event
    made: Event = replace(changed, generation=generation)
    return made


OF_PROCESS = st.one_of(
    st.builds(Spawned, st.just(0), st.integers(2, 9)),
    st.builds(SpawnFailed, st.just(0), st.just("no memory"), st.booleans()),
    st.sampled_from(
        [
            Ready(0),
            Reaped(0),
            StartFailureReported(0, "ImportError"),
            BecameIdle(0),
            Unhealthy(0, "frozen"),
            KillNow(0),
        ]
    ),
    st.builds(Died, st.just(0), exits),
)
happenings = st.builds(
    OffBy,
    st.one_of(
        st.sampled_from(
            [
                Arm(),
                Start(),
                Wanted(),
                Stop(),
                HardRestart(),
                RollingRestart("operator"),
                BeginReplacement(),
                CancelReplacement(),
            ]
        ),
        st.sampled_from([DependenciesReady(), DependencyLost("library"), Elapsed(0)]),
        st.builds(Redefine, policies, st.booleans()),
        st.builds(Rebind, policies),
        OF_PROCESS,
    ),
    st.sampled_from([0, 0, 0, 0, -1, 1]),
)
"""Every kind of event, mostly of the agent's own generation and epoch."""
second_workers = st.builds(
    OfSecondWorker, st.one_of(OF_PROCESS, st.just(SecondWorkerElapsed(0, SecondWorkerState.STARTING)))
)


class PureMachine(RuleBasedStateMachine):
    """One agent, and every event at any time."""

    @initialize(policy=policies)
    def begin(self, policy: Policy) -> None:
        self.agent = Agent(name="research", policy=policy)
        self.now = 0.0

    @rule(
        happening=happenings, draw=st.sampled_from([0.0, 0.5, 0.999]), wait=st.sampled_from([0.0, 1.0, 61.0])
    )
    def happen(self, happening: OffBy, draw: float, wait: float) -> None:
        """Anything, sensible or not."""
        self._take(happening, draw, wait)

    @rule(happening=second_workers, wait=st.sampled_from([0.0, 1.0, 61.0]))
    def happen_to_the_second_worker(self, happening: OfSecondWorker, wait: float) -> None:
        """Anything, sensible or not, if there is one."""
        if (event := happening.of(self.agent)) is None:
            return
        self.now += wait
        before = self.agent
        second_worker = before.second_worker
        assert second_worker is not None
        taken = step(before, event, now=self.now, draw=0.5)
        after = self.agent = taken.agent
        if before.state is State.KILLING and not before.live:
            assert after.state in (State.KILLING, State.STOPPED, State.FAILED)
        elif before.state is State.FAILED and before.desired is Desired.DOWN:
            assert after.state in (State.FAILED, State.STOPPED)
        else:
            assert after.state is before.state
        took_over = after.generation != before.generation
        assert took_over == (isinstance(event, Ready) and second_worker.state is SecondWorkerState.STARTING)
        if after.second_worker is not None and after.second_worker.state is not second_worker.state:
            timed = [e for e in taken.effects if isinstance(e, SetSecondWorkerTimer)]
            assert len(timed) == (after.second_worker.state is not SecondWorkerState.STUCK)

    @rule(number=st.integers(0, 100), policy=policies, exit_=exits, yes=st.booleans())
    def move(self, number: int, policy: Policy, exit_: Exit, yes: bool) -> None:
        """Something that the present state does not ignore: it is what leads far."""
        acting = [
            event for (state, event), row in TABLE.items() if state is self.agent.state and row != IGNORE
        ]
        made: dict[type[Event], Event] = {
            Redefine: Redefine(policy, yes),
            Rebind: Rebind(policy),
            RollingRestart: RollingRestart("operator"),
            DependencyLost: DependencyLost("library"),
            Spawned: Spawned(0, 7),
            SpawnFailed: SpawnFailed(0, "no memory", yes),
            StartFailureReported: StartFailureReported(0, "ImportError"),
            Unhealthy: Unhealthy(0, "frozen"),
            KillNow: KillNow(0),
            Died: Died(0, exit_),
        }
        event_type = acting[number % len(acting)]
        make: Callable[..., Event] = event_type
        event = made.get(event_type) or make(*([0] * len(event_type.__dataclass_fields__)))
        self._take(OffBy(event, 0), 0.5, 0.0)

    def _take(self, happening: OffBy, draw: float, wait: float) -> None:
        self.now += wait
        before, event = self.agent, happening.of(self.agent)
        taken = step(before, event, now=self.now, draw=draw)
        after = self.agent = taken.agent

        assert after.state in (before.state, *TABLE[before.state, type(event)].to)
        if happening.distance and isinstance(event, (*OF_GENERATION, Elapsed)):
            assert (after, taken.effects) == (before, ())
        fails_again = before.state is after.state is State.FAILED and before.live and not after.live
        if after.state is before.state and not fails_again:
            assert after.timer_epoch == before.timer_epoch, "an epoch is a stay in a state"
        else:
            assert after.timer_epoch == before.timer_epoch + 1
            assert after.since == self.now
            timers = [effect for effect in taken.effects if isinstance(effect, SetTimer)]
            assert [timer.timer_epoch for timer in timers] == [after.timer_epoch] * len(timers)
            assert len(timers) == (after.state in TIMED or after.state is State.READY)
        for effect in taken.effects:
            if isinstance(effect, Spawn):
                assert effect.generation == after.last_generation == before.last_generation + 1
            if isinstance(effect, Spawn) and isinstance(event, BeginReplacement):
                assert before.state is State.READY
                assert before.second_worker is None
            elif isinstance(effect, Spawn):
                assert isinstance(event, DependenciesReady)
                assert not before.live
                assert effect.generation == after.generation
            known = {
                a.generation
                for a in (before, after, before.second_worker, after.second_worker)
                if a is not None
            }
            assert getattr(effect, "generation", after.generation) in known

    @invariant()
    def hangs_together(self) -> None:
        agent = getattr(self, "agent", None)
        if agent is None:
            return
        second_worker = agent.second_worker
        if agent.state is State.KILLING:
            assert agent.live or second_worker is not None
        elif agent.state in WITH_PROCESS:
            assert agent.live
        elif agent.state is not State.FAILED:  # which may be one that cannot be killed
            assert not agent.live
        if agent.state in (State.IDLE, State.WAITING, State.STARTING, State.READY, State.BACKOFF):
            assert agent.desired is Desired.UP
        if agent.state is State.IDLE:
            assert agent.policy.on_demand
            assert not agent.warm, "the operator wanted a worker"
        if agent.warm:
            assert agent.desired is Desired.UP
        if agent.state is State.STOPPED:
            assert agent.desired is Desired.DOWN
        assert (agent.retry_at is not None) == (agent.state is State.BACKOFF)
        if agent.state in (State.BACKOFF, State.FAILED):
            assert agent.message
        if agent.state is State.BACKOFF:
            assert agent.failures > 0

    @precondition(lambda self: hasattr(self, "agent"))
    @invariant()
    def the_second_worker_fits(self) -> None:
        agent, second_worker = self.agent, self.agent.second_worker
        if agent.replace is not None:
            assert agent.state is State.READY
        if second_worker is not None:
            assert second_worker.generation != agent.generation
            assert agent.last_generation >= max(second_worker.generation, agent.generation)
            if second_worker.state is SecondWorkerState.STARTING:
                assert agent.state is State.READY
                assert second_worker.generation == agent.last_generation
        if agent.state is State.STOPPED:
            assert second_worker is None

    @precondition(lambda self: hasattr(self, "agent"))
    @invariant()
    def comes_down_when_told_to(self) -> None:
        """After `Stop`, timers alone bring it to rest, even if no process ever answers."""
        agent = step(self.agent, Stop(), now=self.now, draw=0.0).agent
        for _ in range(6):
            if agent.state in RESTING:
                break
            agent = step(agent, Elapsed(agent.timer_epoch), now=self.now, draw=0.0).agent
            if (second_worker := agent.second_worker) is not None:
                elapsed = SecondWorkerElapsed(second_worker.generation, second_worker.state)
                agent = step(agent, elapsed, now=self.now, draw=0.0).agent
        assert agent.state in RESTING
        assert agent.desired is Desired.DOWN


TestPureMachine = PureMachine.TestCase
TestPureMachine.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


def run(agent: Agent, *happened: Event | Callable[[Agent], Event], now: float = 0.0) -> Agent:
    for event in happened:
        known = event if isinstance(event, Event) else event(agent)
        agent = step(agent, known, now=now, draw=0.5).agent
    return agent


CRASH: tuple[Callable[[Agent], Event], ...] = (
    lambda agent: Died(agent.generation, Exit(signal=9)),
    lambda agent: Reaped(agent.generation),
)


@given(max_failures=st.integers(1, 8), became_ready=st.lists(st.booleans(), min_size=8, max_size=8))
def test_as_many_failures_in_a_row_as_are_allowed_lead_to_failed(
    max_failures: int, became_ready: list[bool]
) -> None:
    agent = run(Agent(name="research", policy=Policy(max_failures=max_failures)), Start())
    for number in range(1, max_failures + 1):
        assert agent.state is State.WAITING
        agent = run(agent, DependenciesReady())
        if became_ready[number - 1]:
            agent = run(agent, lambda agent: Ready(agent.generation))
        agent = run(agent, *CRASH)
        assert agent.failures == number
        if number < max_failures:
            assert agent.state is State.BACKOFF
            agent = run(agent, lambda agent: Elapsed(agent.timer_epoch))
    assert agent.state is State.FAILED
    assert run(agent, Start()).failures == 0


@given(before=st.integers(0, 3))
def test_ready_for_reset_after_clears_the_failures(before: int) -> None:
    agent = run(Agent(name="research", policy=Policy(max_failures=5)), Start(), DependenciesReady())
    for _ in range(before):
        agent = run(agent, *CRASH, lambda agent: Elapsed(agent.timer_epoch), DependenciesReady())
    taken = step(agent, Ready(agent.generation), now=0.0, draw=0.5)
    assert taken.agent.failures == before
    assert SetTimer(taken.agent.timer_epoch, agent.policy.reset_after) in taken.effects
    assert run(taken.agent, lambda agent: Elapsed(agent.timer_epoch)).failures == 0


# --- the engine -----------------------------------------------------------------------------------------

DEPENDENCIES = {"library": (), "research": ("library",), "engineering": ("library",), "jarvis": ()}
"""`jarvis` depends on both in the middle or, after a reload, on one of them; see `reload`."""

GRAPHS = (
    {**DEPENDENCIES, "jarvis": ("research", "engineering")},
    {**DEPENDENCIES, "jarvis": ("engineering",)},
    {**DEPENDENCIES, "engineering": (), "jarvis": ("research", "engineering")},
)

names = st.sampled_from(sorted(DEPENDENCIES))


class Fleet(RuleBasedStateMachine):
    """The engine, four agents, and processes that come up, die, hang and vanish as they like."""

    processes_seen = Bundle("processes_seen")

    engine: Engine
    world: FakeProcesses
    loop: FakeLoop

    @initialize(policy=policies, graph=st.sampled_from(GRAPHS), seed=st.integers(0, 9))
    def begin(self, policy: Policy, graph: dict[str, tuple[str, ...]], seed: int) -> None:
        rules = dict.fromkeys(graph, policy)
        self.engine, self.world, self.loop = make_engine(graph, rules, rng=random.Random(seed))
        with patch("asyncio.get_running_loop", return_value=self.loop):
            self.sockets = UnavailableResponders(self.engine, {}, str, lambda _: False, lambda _: None)
        self.engine.observers.transition.add(self._check_transition, self.sockets.follow)
        self.shutting_down = False
        self.engine.start(graph)

    def _check_transition(self, change: Transition) -> None:
        name = change.after.name
        agents, graph = self.engine.agents, self.engine.graph
        if change.of_state and change.after.state is State.STARTING and change.before.state is State.WAITING:
            needs = {need: agents[need].state for need in graph.dependencies(name)}
            available = all(agents[need].is_available for need in graph.dependencies(name))
            self.world.insist(available, f"{name} starts while {needs}")
        if change.of_state and change.after.state is State.IDLE:
            self.world.insist(not change.after.live, f"{name} is idle with a process")
        surging = [
            a
            for a in agents.values()
            if a.second_worker and a.second_worker.state is SecondWorkerState.STARTING
        ]
        self.world.insist(len(surging) <= self.engine.max_surge, f"more surge than allowed: {surging}")
        if self.shutting_down and change.of_state and change.after.state is State.STOPPING:
            busy = [n for n in graph.dependents(name) if agents[n].state not in RESTING]
            self.world.insist(
                change.after.desired is Desired.UP or not busy, f"{name} is stopped before {busy}"
            )

    # --- what the operator does ---------------------------------------------------------------------------

    @rule(wanted=st.sets(names))
    def start(self, wanted: set[str]) -> None:
        self.engine.start(wanted)

    @rule(wanted=st.sets(names))
    def arm(self, wanted: set[str]) -> None:
        self.engine.arm(wanted)

    @rule(name=names)
    def connect(self, name: str) -> None:
        """A connection waits; nobody watches but where the agent is idle."""
        if self.engine.agents[name].state is State.IDLE:
            self.engine.post(name, Wanted())
            assert self.engine.agents[name].state in (State.WAITING, State.STARTING)

    @rule(name=names)
    def stop(self, name: str) -> None:
        self.engine.post(name, Stop())

    @rule(name=names)
    def restart(self, name: str) -> None:
        self.engine.post(name, HardRestart())

    @rule(name=names, cause=st.sampled_from(["operator", "memory"]))
    def replace(self, name: str, cause: str) -> None:
        self.engine.post(name, RollingRestart(cause))

    @rule(name=names, policy=policies)
    def rebind(self, name: str, policy: Policy) -> None:
        self.engine.post(name, Rebind(policy))

    @rule(name=names, policy=policies, respawn=st.booleans())
    def redefine(self, name: str, policy: Policy, respawn: bool) -> None:
        self.engine.post(name, Redefine(policy, respawn))

    @rule(graph=st.sampled_from(GRAPHS))
    def reload(self, graph: dict[str, tuple[str, ...]]) -> None:
        self.engine.redefine(Graph(graph), {name: self.engine.agents[name].policy for name in graph})
        self.sockets.replace({})

    # --- what processes do --------------------------------------------------------------------------------

    def _some(self, data: st.DataObject, *, spawned: bool, dead: bool) -> FakeProcess | None:
        found = [p for p in self.world.live.values() if (p.spawned, p.dead) == (spawned, dead)]
        return data.draw(st.sampled_from(found)) if found else None

    @rule(data=st.data())
    def appear(self, data: st.DataObject) -> None:
        if process := self._some(data, spawned=False, dead=False):
            self._spawned(process)

    @rule(data=st.data(), permanent=st.booleans())
    def cannot_appear(self, data: st.DataObject, permanent: bool) -> None:
        if process := self._some(data, spawned=False, dead=False):
            self.world.remove(process)
            self.engine.post(process.name, SpawnFailed(process.generation, "no memory", permanent))

    @rule(data=st.data())
    def come_up(self, data: st.DataObject) -> None:
        if process := self._some(data, spawned=True, dead=False):
            process.serving = True
            self.engine.post(process.name, Ready(process.generation))

    @rule(data=st.data())
    def have_no_call(self, data: st.DataObject) -> None:
        if (process := self._some(data, spawned=True, dead=False)) and process.serving:
            self.engine.post(process.name, BecameIdle(process.generation))

    @rule(data=st.data(), what=st.sampled_from([StartFailureReported, Unhealthy, KillNow]))
    def speak(self, data: st.DataObject, what: type[StartFailureReported | Unhealthy | KillNow]) -> None:
        if process := self._some(data, spawned=True, dead=False):
            self.engine.post(process.name, what(process.generation, "said so"))

    @rule(data=st.data(), exit_=exits)
    def die(self, data: st.DataObject, exit_: Exit) -> None:
        if process := self._some(data, spawned=True, dead=False):
            process.dead = True
            self.engine.post(process.name, Died(process.generation, exit_))
            assert "reap" in process.asked

    @rule(target=processes_seen, data=st.data())
    def vanish(self, data: st.DataObject) -> object:
        if process := self._some(data, spawned=True, dead=True):
            self.world.remove(process)
            self.engine.post(process.name, Reaped(process.generation))
            return process
        return multiple()

    @rule(process=processes_seen, late=st.sampled_from([Ready, Reaped]))
    def say_something_late(self, process: FakeProcess, late: type[Ready | Reaped]) -> None:
        before = self.engine.agents[process.name]
        if before.generation > process.generation and before.second_worker is None:
            self.engine.post(process.name, late(process.generation))
            assert self.engine.agents[process.name] == before

    # --- what time does -----------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.0, 0.1, 0.6, 2.0, 10.0, 31.0, 61.0]))
    def pass_time(self, seconds: float) -> None:
        self.loop.advance(seconds)

    # --- what leads far -----------------------------------------------------------------------------------

    @rule()
    def all_come_up(self) -> None:
        for name in self.engine.graph.start_order:
            self.engine.post(name, Start())
            for process in self.world.of(name)[:1]:
                if not process.dead and not process.spawned:
                    self._spawned(process)
                if not process.dead:
                    process.serving = True
                    self.engine.post(name, Ready(process.generation))

    @rule(name=names, helped=st.booleans())
    def cannot_be_killed(self, name: str, helped: bool) -> None:
        """It is told to stop and never does, whether its process exists already or is still to come."""
        for process in self.world.of(name):
            if helped and not process.spawned:
                self._spawned(process)
        self.engine.post(name, Stop())
        self.loop.advance(10.0 + 2 * KILL_TIMEOUT)
        assert self.engine.agents[name].state in RESTING

    def _spawned(self, process: FakeProcess) -> None:
        process.spawned = True
        self.engine.post(process.name, Spawned(process.generation, 100 + process.generation))

    # --- what holds always --------------------------------------------------------------------------------

    @precondition(lambda self: hasattr(self, "engine"))
    @invariant()
    def no_promise_is_broken(self) -> None:
        assert not self.world.broken

    @precondition(lambda self: hasattr(self, "engine"))
    @invariant()
    def knows_its_processes(self) -> None:
        for name, agent in self.engine.agents.items():
            known = {agent.generation: agent.pid} if agent.live else {}
            if agent.second_worker is not None:
                known[agent.second_worker.generation] = agent.second_worker.pid
            processes = {p.generation: p for p in self.world.of(name)}
            assert processes.keys() == known.keys()
            for generation, process in processes.items():
                assert process.spawned == (known[generation] is not None)

    @precondition(lambda self: hasattr(self, "engine"))
    @invariant()
    def nobody_is_forgotten(self) -> None:
        """A state that is not a resting one holds a timer or awaits a named event."""
        for name, agent in self.engine.agents.items():
            if agent.state in TIMED:
                timer = self.engine._timers[name]
                assert not timer.cancelled()
                assert timer.when() >= self.loop.now
            elif agent.state is State.WAITING:
                assert self.engine.awaited(name) != ()
            elif agent.state is State.READY:
                assert not self.world.live[name, agent.generation].dead
            second_worker = agent.second_worker
            if second_worker is not None and second_worker.state is not SecondWorkerState.STUCK:
                timer = self.engine._second_worker_timers[name]
                assert not timer.cancelled()
                assert timer.when() >= self.loop.now

    @precondition(lambda self: hasattr(self, "engine"))
    @invariant()
    def who_is_answered_for_follows_each_change(self) -> None:
        followed = set(self.sockets.unserved)
        self.sockets.switch()
        assert followed == self.sockets.unserved

    @precondition(lambda self: hasattr(self, "engine"))
    @invariant()
    def a_replacement_that_is_due_waits_for_something(self) -> None:
        agents = self.engine.agents
        for name, agent in agents.items():
            if agent.replace is not None and agent.second_worker is None:
                surging = [other for other in agents.values() if other.second_worker is not None]
                needs = [agents[need] for need in self.engine.graph.dependencies(name)]
                assert surging or any(need.replace is not None for need in needs)

    @precondition(lambda self: hasattr(self, "engine"))
    @invariant()
    def a_live_process_is_asked_to_end_where_it_should(self) -> None:
        for name, agent in self.engine.agents.items():
            second_worker = agent.second_worker
            for process in self.world.of(name):
                if process.dead or not process.spawned:
                    continue
                if process.generation == agent.generation:
                    if agent.state is State.STOPPING:
                        assert "terminate" in process.asked
                    if agent.state in (State.KILLING, State.FAILED):
                        assert "kill" in process.asked
                else:
                    assert second_worker is not None
                    if second_worker.state is SecondWorkerState.DRAINING:
                        assert "terminate" in process.asked
                    if second_worker.state in (SecondWorkerState.KILLING, SecondWorkerState.STUCK):
                        assert "kill" in process.asked

    def teardown(self) -> None:
        """In the end everything comes down, with processes that die when killed, or that never do."""
        if not hasattr(self, "engine"):
            return
        mortal = self.engine.agents["library"].generation % 2 == 0
        self.shutting_down = True
        shutdown = Driven(self.engine.shut_down())
        for _ in range(2 * len(self.engine.agents)):
            self.loop.advance(10.0 + KILL_TIMEOUT)
            for process in list(self.world.live.values()) if mortal else ():
                self._end(process)
        shutdown.go_on()
        assert shutdown.done
        assert not self.world.broken
        states = {agent.state for agent in self.engine.agents.values()}
        assert states <= RESTING
        assert all(agent.desired is Desired.DOWN for agent in self.engine.agents.values())
        if mortal:
            assert not self.world.live

    def _end(self, process: FakeProcess) -> None:
        if not process.spawned:
            self._spawned(process)
        if not process.dead:
            process.dead = True
            self.engine.post(process.name, Died(process.generation, Exit(signal=9)))
        self.world.remove(process)
        self.engine.post(process.name, Reaped(process.generation))


TestFleet = Fleet.TestCase
TestFleet.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


@given(policy=policies, exits_=st.lists(exits, min_size=1, max_size=12))
def test_an_agent_that_never_stays_up_comes_to_rest(policy: Policy, exits_: list[Exit]) -> None:
    """However it dies, it is started again, in `backoff` with a time, or at rest with a message.

    Somebody connects whenever it is idle: a worker that ends without serving must not be started for ever.
    """
    engine, world, loop = make_engine({"research": ()}, {"research": replace(policy, reset_after=1e6)})
    engine.arm(["research"])
    engine.post("research", Wanted())
    for exit_ in exits_:
        if not world.of("research"):
            break
        process = world.newest("research")
        engine.post("research", Spawned(process.generation, 7))
        process.dead = process.spawned = True
        engine.post("research", Died(process.generation, exit_))
        world.remove(process)
        engine.post("research", Reaped(process.generation))
        loop.advance(40.0)
        engine.post("research", Wanted())
    agent = engine.agents["research"]
    assert agent.state in (State.STARTING, State.STOPPED, State.FAILED, State.STOPPING, State.KILLING)
    assert agent.generation <= policy.max_failures
    if agent.state in RESTING:
        assert agent.message
