"""Graceful replacement under the engine: the old worker serves until the new one is ready, whatever happens."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pallas_supervisor.lifecycle.events import (
    Died,
    HardRestart,
    Ready,
    Reaped,
    Rebind,
    Redefine,
    RollingRestart,
    Spawned,
    SpawnFailed,
    Start,
    StartFailureReported,
    Stop,
    Unhealthy,
)
from pallas_supervisor.lifecycle.states import Exit, Policy, SecondWorkerState, State
from support.supervisor.fakes import FakeLoop, FakeProcess, FakeProcesses, make_engine

if TYPE_CHECKING:
    from pallas_supervisor.agents.engine import Engine
    from pallas_supervisor.lifecycle.states import Agent

CHAIN = {"library": (), "research": ("library",), "jarvis": ("research",)}


class World:
    """An engine whose agents are all READY, and the hands to move its processes."""

    def __init__(self, dependencies: dict[str, tuple[str, ...]], max_surge: int = 1, **policy: Any) -> None:
        rules = {name: replace(Policy(), **policy) for name in dependencies}
        self.engine: Engine
        self.processes: FakeProcesses
        self.loop: FakeLoop
        self.engine, self.processes, self.loop = make_engine(dependencies, rules)
        self.engine.max_surge = max_surge
        self.engine.start(dependencies)
        for name in self.engine.graph.start_order:
            self.come_up(name)
        self.processes.took()

    def agent(self, name: str = "library") -> Agent:
        return self.engine.agents[name]

    def second_worker(self, name: str = "library") -> tuple[int, str] | None:
        second_worker = self.agent(name).second_worker
        return None if second_worker is None else (second_worker.generation, str(second_worker.state))

    def appear(self, name: str = "library") -> FakeProcess:
        process = self.processes.newest(name)
        process.spawned = True
        self.engine.post(name, Spawned(process.generation, 100 + process.generation))
        return process

    def come_up(self, name: str = "library") -> None:
        process = self.appear(name)
        process.serving = True
        self.engine.post(name, Ready(process.generation))

    def die(self, name: str = "library", generation: int = 1, exit_: Exit | None = None) -> None:
        self.processes.live[name, generation].dead = True
        self.engine.post(name, Died(generation, exit_ or Exit(status=0)))

    def reap(self, name: str = "library", generation: int = 1) -> None:
        self.processes.remove(self.processes.live[name, generation])
        self.engine.post(name, Reaped(generation))

    def end(self, name: str = "library", generation: int = 1, exit_: Exit | None = None) -> None:
        self.die(name, generation, exit_)
        self.reap(name, generation)


@pytest.fixture
def world() -> World:
    return World({"library": ()})


def test_the_old_worker_serves_until_the_new_one_is_ready_and_drains_then(world: World) -> None:
    restarts: list[tuple[str, str]] = []
    world.engine.observers.restart_counted.add(lambda name, reason: restarts.append((name, reason)))
    world.engine.post("library", RollingRestart("operator"))
    assert world.processes.took() == [("spawn", "library", 2)]
    assert (world.agent().state, world.agent().generation, world.second_worker()) == (
        State.READY,
        1,
        (2, "starting"),
    )
    assert not restarts
    world.come_up()
    assert world.processes.took() == [("terminate", "library", 1)]
    assert (world.agent().state, world.agent().generation, world.agent().pid) == (State.READY, 2, 102)
    assert world.second_worker() == (1, "draining")
    assert restarts == [("library", "operator")]
    world.die()
    assert world.processes.took() == [("reap", "library", 1)]
    world.reap()
    assert world.second_worker() is None
    assert (world.agent().state, world.agent().restarts) == (State.READY, 1)


def test_an_old_worker_that_does_not_finish_in_time_is_killed(world: World) -> None:
    world.engine.post("library", RollingRestart("operator"))
    world.come_up()
    world.loop.advance(world.agent().policy.stop_timeout)
    assert world.processes.took()[-1] == ("kill", "library", 1)
    assert world.second_worker() == (1, "killing")
    world.loop.advance(10.0)
    assert world.second_worker() == (1, "stuck")
    assert world.agent().state is State.READY
    world.end()
    assert world.second_worker() is None


@pytest.mark.parametrize("how", ["cannot be spawned", "dies", "complains and dies", "is not ready in time"])
def test_a_new_worker_that_does_not_come_up_leaves_the_old_one_serving(world: World, how: str) -> None:
    world.engine.post("library", RollingRestart("operator"))
    if how == "cannot be spawned":
        world.processes.remove(world.processes.newest("library"))
        world.engine.post("library", SpawnFailed(2, "no memory"))
    else:
        world.appear()
        if how == "is not ready in time":
            world.loop.advance(world.agent().policy.start_timeout)
            assert world.processes.took()[-1] == ("kill", "library", 2)
        if how == "complains and dies":
            world.engine.post("library", StartFailureReported(2, "ImportError: no module named x"))
        world.end(generation=2, exit_=Exit(status=78))
    reason = {
        "cannot be spawned": "no memory",
        "dies": "exit status 78",
        "complains and dies": "ImportError: no module named x",
        "is not ready in time": "not ready within 60 s",
    }[how]
    agent = world.agent()
    assert (agent.state, agent.generation, agent.second_worker, agent.restarts) == (State.READY, 1, None, 0)
    assert agent.message == f"could not be replaced, the old worker goes on: {reason}"
    assert agent.replace is None
    world.engine.post("library", RollingRestart("operator"))
    assert world.second_worker() == (3, "starting")
    assert world.agent().message == ""


@pytest.mark.parametrize("how", ["dies", "freezes"])
def test_if_the_old_worker_fails_meanwhile_the_new_one_is_the_restart(world: World, how: str) -> None:
    world.engine.post("library", RollingRestart("operator"))
    world.appear()
    world.processes.took()
    if how == "dies":
        world.die(exit_=Exit(signal=9))
        assert world.processes.took() == [("reap", "library", 1)]
    else:
        world.engine.post("library", Unhealthy(1, "no heartbeat"))
        assert world.processes.took() == [("kill", "library", 1)]
        world.die(exit_=Exit(signal=9))
    agent = world.agent()
    assert (agent.state, agent.generation, agent.pid, agent.failures) == (State.STARTING, 2, 102, 1)
    assert world.second_worker() == (1, "killing")
    world.reap()
    world.engine.post("library", Ready(2))
    assert (world.agent().state, world.second_worker()) == (State.READY, None)


def test_the_time_to_start_is_counted_from_when_there_is_a_process(world: World) -> None:
    world.engine.post("library", RollingRestart("operator"))
    world.loop.advance(world.agent().policy.start_timeout + 1.0)
    assert world.second_worker() == (2, "starting"), "it waits for the zygote"
    world.appear()
    world.loop.advance(world.agent().policy.start_timeout)
    assert world.second_worker() == (2, "killing")


def test_a_frozen_worker_is_killed_without_a_drain(world: World) -> None:
    world.engine.post("library", Unhealthy(1, "no heartbeat for 30 s"))
    assert world.processes.took() == [("kill", "library", 1)]
    assert world.agent().state is State.KILLING
    world.end(exit_=Exit(signal=9))
    assert (world.agent().failures, world.agent().message) == (1, "no heartbeat for 30 s")


@pytest.mark.parametrize("event", [Stop(), HardRestart(), Rebind(Policy())])
def test_what_ends_the_old_worker_ends_the_new_one_too(
    world: World, event: Stop | HardRestart | Rebind
) -> None:
    world.engine.post("library", RollingRestart("operator"))
    world.appear()
    world.processes.took()
    world.engine.post("library", event)
    assert world.processes.took() == [("kill", "library", 2), ("terminate", "library", 1)]
    world.end(generation=1)
    stopping = isinstance(event, Stop)
    assert world.agent().state is (State.KILLING if stopping else State.STARTING)
    world.end(generation=2)
    assert world.agent().state is (State.STOPPED if stopping else State.STARTING)
    assert world.agent().generation == (1 if stopping else 3)


def test_stopped_means_that_the_old_worker_is_gone_as_well(world: World) -> None:
    world.engine.post("library", RollingRestart("operator"))
    world.come_up()
    world.engine.post("library", Stop())
    world.end(generation=2)
    assert world.agent().state is State.KILLING
    world.engine.post("library", Start())
    assert world.agent().state is State.STARTING, "a start need not wait for one that drains"
    world.engine.post("library", Stop())
    world.appear()
    world.end(generation=3)
    world.end(generation=1)
    assert world.agent().state is State.STOPPED


def test_a_definition_that_changes_meanwhile_wants_yet_another_worker(world: World) -> None:
    world.engine.post("library", Redefine(Policy(), respawn=True))
    world.appear()
    world.engine.post("library", Redefine(Policy(), respawn=True))
    assert world.second_worker() == (2, "killing")
    assert world.agent().replace == "reload"
    world.end(generation=2, exit_=Exit(signal=9))
    assert world.second_worker() == (3, "starting")
    world.come_up()
    world.end(generation=1)
    assert (world.agent().generation, world.agent().replace) == (3, None)


def test_a_second_restart_during_the_first_is_another_one(world: World) -> None:
    world.engine.post("library", RollingRestart("operator"))
    world.engine.post("library", RollingRestart("operator"))
    world.come_up()
    world.end(generation=1)
    assert (world.agent().generation, world.second_worker()) == (2, (3, "starting"))


def test_there_is_no_third_process_beside_one_that_cannot_be_killed(world: World) -> None:
    world.engine.post("library", RollingRestart("operator"))
    world.come_up()
    world.engine.post("library", RollingRestart("operator"))
    world.loop.advance(10.0)
    world.loop.advance(10.0)
    assert world.second_worker() == (1, "stuck")
    assert world.agent().replace is None
    world.engine.post("library", RollingRestart("operator"))
    assert world.agent().state is State.STOPPING


def test_a_roll_goes_through_the_dependencies_one_at_a_time() -> None:
    world = World(CHAIN)
    for name in world.engine.graph.start_order:
        world.engine.post(name, RollingRestart("operator"))
    for name, after in (("library", "research"), ("research", "jarvis"), ("jarvis", None)):
        spawned = [call[1] for call in world.processes.took() if call[0] == "spawn"]
        assert spawned == [name]
        world.come_up(name)
        assert [call for call in world.processes.took() if call[0] == "spawn"] == []
        world.end(name)
        if after is not None:
            assert world.second_worker(after) == (2, "starting")
    assert {agent.generation for agent in world.engine.agents.values()} == {2}
    assert {str(agent.state) for agent in world.engine.agents.values()} == {"ready"}


def test_a_wider_surge_still_keeps_dependents_behind() -> None:
    world = World({"library": (), "other": (), "research": ("library",)}, max_surge=3)
    for name in world.engine.graph.start_order:
        world.engine.post(name, RollingRestart("operator"))
    spawned = {call[1] for call in world.processes.took() if call[0] == "spawn"}
    assert spawned == {"library", "other"}
    world.come_up("library")
    assert world.second_worker("research") == (2, "starting")


@pytest.mark.parametrize(("cause", "goes_on"), [("operator", False), ("memory", True)])
def test_an_operators_roll_stops_at_the_first_that_does_not_come_up(cause: str, goes_on: bool) -> None:
    world = World(CHAIN)
    for name in CHAIN:
        world.engine.post(name, RollingRestart(cause))
    world.appear("library")
    world.end("library", 2, Exit(status=1))
    assert {name for name in CHAIN if world.agent(name).replace or world.second_worker(name)} == (
        {"research", "jarvis"} if goes_on else set()
    )
    assert {agent.generation for agent in world.engine.agents.values()} == {1}


def test_dependents_do_not_notice_a_graceful_replacement() -> None:
    world = World(CHAIN, on_dependency_loss="restart")
    world.engine.post("library", RollingRestart("operator"))
    world.come_up("library")
    world.end("library")
    assert (world.agent("research").generation, world.agent("research").state) == (1, State.READY)


def test_a_removed_agent_that_cannot_be_killed_is_watched_until_it_is_gone(world: World) -> None:
    from pallas_supervisor.lifecycle.dependencies import Graph

    world.engine.post("library", Stop())
    world.loop.advance(20.0)
    assert world.agent().state is State.FAILED
    world.engine.redefine(Graph({}), {})
    assert list(world.engine.unkillable) == ["library"]
    world.processes.took()
    world.die()
    assert world.processes.took() == [("reap", "library", 1)]
    world.reap()
    assert not world.engine.unkillable


def test_the_stages_are_those_that_the_status_names() -> None:
    assert [str(state) for state in SecondWorkerState] == ["starting", "draining", "killing", "stuck"]


@pytest.mark.parametrize(
    "how", ["the restart policy lets it rest", "it could not be spawned", "stopped in back-off"]
)
def test_nothing_rests_while_an_old_worker_drains(how: str) -> None:
    world = World({"library": ()}, restart="on-failure")
    world.engine.post("library", RollingRestart("operator"))
    world.come_up()
    assert world.second_worker() == (1, "draining")
    if how == "the restart policy lets it rest":
        world.end(generation=2, exit_=Exit(status=0))
    else:
        world.end(generation=2, exit_=Exit(status=1))
        world.loop.advance(0.0)
        if how == "it could not be spawned":
            world.engine.post("library", Stop())
            world.processes.remove(world.processes.newest("library"))
            world.engine.post("library", SpawnFailed(3, "no memory"))
        else:
            world.processes.remove(world.processes.newest("library"))
            world.engine.post("library", SpawnFailed(3, "no memory"))
            assert world.agent().state is State.BACKOFF
            world.engine.post("library", Stop())
    assert world.agent().state is State.KILLING
    world.end(generation=1)
    assert world.agent().state is State.STOPPED
