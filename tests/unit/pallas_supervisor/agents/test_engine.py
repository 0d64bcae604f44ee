"""The engine: mail in order, timers, who starts and stops when, who waits for what. A clock that the test moves."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from pallas_supervisor.agents.engine import RECONCILE_INTERVAL, Engine
from pallas_supervisor.lifecycle.dependencies import Graph
from pallas_supervisor.lifecycle.events import (
    BecameIdle,
    Died,
    HardRestart,
    Ready,
    Reaped,
    Rebind,
    RollingRestart,
    Spawned,
    SpawnFailed,
    Start,
    Stop,
    Wanted,
)
from pallas_supervisor.lifecycle.second_worker import KILL_TIMEOUT, SPAWN_TIMEOUT
from pallas_supervisor.lifecycle.states import Desired, Exit, Policy, State, Transition
from support.supervisor.fakes import FakeLoop, FakeProcesses, make_engine

CHAIN = {"library": (), "research": ("library",), "jarvis": ("research",)}


def come_up(engine: Engine, world: FakeProcesses, name: str) -> None:
    process = world.newest(name)
    process.spawned = True
    engine.post(name, Spawned(process.generation, 7))
    engine.post(name, Ready(process.generation))


def end(engine: Engine, world: FakeProcesses, name: str, exit_: Exit) -> None:
    process = world.newest(name)
    process.dead = True
    engine.post(name, Died(process.generation, exit_))
    world.remove(process)
    engine.post(name, Reaped(process.generation))


def states(engine: Engine) -> dict[str, str]:
    return {name: str(agent.state) for name, agent in engine.agents.items()}


def started(
    dependencies: dict[str, tuple[str, ...]], **policy: Any
) -> tuple[Engine, FakeProcesses, FakeLoop]:
    """An engine whose agents are all READY."""
    rules = {name: replace(Policy(), **policy) for name in dependencies}
    engine, world, loop = make_engine(dependencies, rules)
    engine.start(dependencies)
    for name in engine.graph.start_order:
        come_up(engine, world, name)
    world.took()
    return engine, world, loop


def test_agents_start_once_what_they_depend_on_is_ready() -> None:
    engine, world, _ = make_engine(CHAIN)
    assert engine.start(["jarvis"]) == ("library", "research", "jarvis")
    for name in CHAIN:
        assert [call for call in world.took() if call[0] == "spawn"] == [("spawn", name, 1)]
        come_up(engine, world, name)
    assert set(states(engine).values()) == {"ready"}


def test_start_of_one_agent_leaves_the_others_alone() -> None:
    engine, _, _ = make_engine({**CHAIN, "engineering": ()})
    engine.start(["research"])
    assert states(engine) == {
        "library": "starting",
        "research": "waiting",
        "jarvis": "stopped",
        "engineering": "stopped",
    }


def test_a_process_that_is_asked_for_twice_is_spawned_once() -> None:
    engine, world, _ = make_engine({"library": ()})
    for _ in range(3):
        engine.post("library", Start())
        engine.post("library", Start())
    assert world.took() == [("spawn", "library", 1)]


def test_all_stop_in_reverse_and_each_only_when_its_dependents_are_gone() -> None:
    engine, world, loop = started(CHAIN)
    shutdown = loop.run(engine.shut_down())
    for name in ("jarvis", "research", "library"):
        assert world.took() == [("terminate", name, 1)]
        assert not shutdown.done
        end(engine, world, name, Exit(status=0))
        assert ("reap", name, 1) in world.calls
        world.calls.remove(("reap", name, 1))
        shutdown.go_on()
    assert shutdown.done
    assert set(states(engine).values()) == {"stopped"}


def test_a_shutdown_is_not_held_up_by_a_process_that_cannot_be_killed() -> None:
    engine, _, loop = started(CHAIN)
    shutdown = loop.run(engine.shut_down())
    loop.advance(60.0)
    shutdown.go_on()
    assert shutdown.done
    assert set(states(engine).values()) == {"failed"}


def unkilled(name: str) -> tuple[Engine, FakeProcesses, FakeLoop]:
    """An agent that died, and of which something was left for too long."""
    engine, world, loop = started({name: ()})
    engine.post(name, Died(1, Exit(signal=9)))
    loop.advance(KILL_TIMEOUT)
    assert engine.agents[name].state is State.FAILED
    assert "cannot be killed" in engine.agents[name].message
    return engine, world, loop


def test_one_that_was_reaped_too_late_goes_on_as_if_it_had_been_in_time() -> None:
    engine, world, loop = unkilled("library")
    engine.post("library", Reaped(1))
    agent = engine.agents["library"]
    assert (agent.state, agent.failures, agent.message) == (State.BACKOFF, 1, "killed by SIGKILL")
    loop.advance(60.0)
    agent = engine.agents["library"]
    assert agent.state is State.STARTING
    come_up(engine, world, "library")
    assert engine.agents["library"].state is State.READY


def test_one_that_was_reaped_too_late_and_is_not_wanted_any_more_is_stopped() -> None:
    engine, _, _ = unkilled("library")
    engine.post("library", Stop())
    engine.post("library", Reaped(1))
    assert states(engine) == {"library": "stopped"}


def test_a_reap_of_what_had_failed_for_good_changes_nothing() -> None:
    engine, world, _ = started({"library": ()})
    end(engine, world, "library", Exit(status=78))
    failed = engine.agents["library"]
    assert failed.state is State.FAILED
    engine.post("library", Reaped(1))
    assert engine.agents["library"] == failed


def test_a_shutdown_stops_what_somebody_starts_meanwhile() -> None:
    engine, world, loop = started(CHAIN)
    shutdown = loop.run(engine.shut_down())
    end(engine, world, "jarvis", Exit(status=0))
    engine.start(["jarvis"])
    assert states(engine)["jarvis"] == "stopped"
    for name in ("research", "library"):
        end(engine, world, name, Exit(status=0))
    shutdown.go_on()
    assert shutdown.done
    assert set(states(engine).values()) == {"stopped"}


def test_no_timer_is_left_behind() -> None:
    engine, world, loop = started({"library": ()})
    for _ in range(20):
        engine.post("library", HardRestart())
        end(engine, world, "library", Exit(status=0))
        come_up(engine, world, "library")
    pending = [handle for _, _, handle in loop._timers if not handle.cancelled()]
    assert len(pending) == 2, "the reconciliation's, and that of `reset_after`"


def test_a_timer_of_a_state_that_was_left_changes_nothing() -> None:
    engine, world, loop = make_engine({"library": ()})
    engine.start(["library"])
    loop.advance(59.0)
    come_up(engine, world, "library")
    loop.advance(2.0)
    assert states(engine) == {"library": "ready"}


def test_backoff_is_on_the_loops_clock() -> None:
    engine, world, loop = started({"library": ()})
    end(engine, world, "library", Exit(signal=9))
    assert states(engine) == {"library": "backoff"}, "the first time it is started again at once"
    loop.advance(0.0)
    assert world.took()[-1] == ("spawn", "library", 2)
    end(engine, world, "library", Exit(signal=9))
    wait = engine.agents["library"].retry_at
    assert wait is not None
    loop.advance(wait - loop.now - 0.01)
    assert states(engine) == {"library": "backoff"}
    loop.advance(0.02)
    assert states(engine) == {"library": "starting"}


@pytest.mark.parametrize(("policy", "state"), [("keep", "ready"), ("restart", "stopping")])
def test_dependents_learn_of_a_loss(policy: str, state: str) -> None:
    engine, world, _ = started(CHAIN, on_dependency_loss=policy)
    end(engine, world, "library", Exit(signal=9))
    assert states(engine)["research"] == state
    if policy == "restart":
        assert engine.agents["research"].message == "restarting because library is not ready"


def test_a_waiting_agent_starts_by_itself_when_its_dependency_comes_back() -> None:
    engine, world, _ = make_engine(CHAIN, {name: Policy(restart="never") for name in CHAIN})
    engine.start(CHAIN)
    engine.post("library", SpawnFailed(1, "no memory"))
    world.remove(world.newest("library"))
    assert states(engine)["library"] == "failed"
    assert engine.awaited("research") == ("library",)
    engine.start(["library"])
    come_up(engine, world, "library")
    assert states(engine)["research"] == "starting"


def test_events_of_removed_agents_are_dropped() -> None:
    engine, _, _ = make_engine(CHAIN)
    engine.post("nobody", Start())
    assert set(engine.agents) == set(CHAIN)


def test_redefinition_keeps_agents_adds_and_removes() -> None:
    engine, world, _ = started(CHAIN)
    before = engine.agents["library"]
    engine.post("jarvis", Stop())
    end(engine, world, "jarvis", Exit(status=0))
    new = {"library": (), "research": ("library",), "engineering": ("library",)}
    engine.redefine(Graph(new), dict.fromkeys(new, Policy()))
    assert list(engine.agents) == list(new)
    assert engine.agents["library"] is before
    assert engine.agents["engineering"].desired is Desired.DOWN
    engine.start(["engineering"])
    assert states(engine)["engineering"] == "starting"


def test_redefinition_starts_what_it_has_freed() -> None:
    engine, _, _ = make_engine(CHAIN)
    engine.start(["jarvis"])
    engine.redefine(Graph({**CHAIN, "jarvis": ()}), dict.fromkeys(CHAIN, Policy()))
    assert states(engine) == {"library": "starting", "research": "waiting", "jarvis": "starting"}


def test_whoever_waits_for_an_agent_learns_that_it_was_removed() -> None:
    engine, _, loop = make_engine(CHAIN)

    async def until_it_is_gone() -> None:
        await engine.until(lambda: "jarvis" not in engine.agents)

    waiting = loop.run(until_it_is_gone())
    new = {name: needs for name, needs in CHAIN.items() if name != "jarvis"}
    engine.redefine(Graph(new), dict.fromkeys(new, Policy()))
    waiting.go_on()
    assert waiting.done
    assert not engine._changed


def test_until_returns_at_once_if_it_holds_already() -> None:
    engine, _, loop = make_engine(CHAIN)
    assert loop.run(engine.until(lambda: True)).done


def test_every_state_change_is_told_in_order() -> None:
    engine, world, _ = make_engine({"library": ()})
    told: list[tuple[str, str]] = []
    engine.observers.transition.add(
        lambda change: told.append((str(change.before.state), str(change.after.state)))
    )
    engine.start(["library"])
    come_up(engine, world, "library")
    assert told == [("stopped", "waiting"), ("waiting", "starting"), ("starting", "ready")]


def test_an_observer_may_post() -> None:
    engine, world, _ = make_engine({"library": ()})

    def stop_at_once(change: Transition) -> None:
        if change.after.state is State.READY:
            engine.post("library", Stop())

    engine.observers.transition.add(stop_at_once)
    engine.start(["library"])
    come_up(engine, world, "library")
    assert states(engine) == {"library": "stopping"}


def test_restarts_and_starts_are_counted() -> None:
    engine, world, loop = make_engine({"library": ()})
    restarts: list[tuple[str, str]] = []
    starts: list[float] = []
    engine.observers.restart_counted.add(lambda name, reason: restarts.append((name, reason)))
    engine.observers.start_observed.add(lambda _name, seconds: starts.append(seconds))
    engine.start(["library"])
    loop.advance(3.0)
    come_up(engine, world, "library")
    engine.post("library", Rebind(Policy()))
    end(engine, world, "library", Exit(status=0))
    assert starts == [3.0]
    assert restarts == [("library", "reload")]
    assert engine.agents["library"].restarts == 1


def test_a_failing_observer_costs_nobody_a_process_or_a_timer(caplog: pytest.LogCaptureFixture) -> None:
    engine, world, loop = make_engine({"library": ()})

    def fail(_change: Transition) -> None:
        raise RuntimeError("a defect elsewhere")

    engine.observers.transition.add(fail)
    with caplog.at_level(logging.ERROR):
        engine.start(["library"])
    assert "a defect elsewhere" in caplog.text
    assert world.took() == [("spawn", "library", 1)]
    loop.advance(SPAWN_TIMEOUT)
    assert states(engine) == {"library": "stopping"}, "its start was timed"


def test_a_driver_that_fails_costs_nobody_the_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, world, loop = started({"library": ()})

    def fail(_name: str, _generation: int) -> None:
        raise PermissionError("not allowed")

    monkeypatch.setattr(world, "terminate", fail)
    engine.post("library", Stop())
    loop.advance(10.0)
    assert states(engine) == {"library": "killing"}


def test_reconciliation_goes_on_until_the_shutdown() -> None:
    engine, world, loop = make_engine({"library": ()})
    for _ in range(3):
        engine.agents["library"] = replace(engine.agents["library"], state=State.WAITING, desired=Desired.UP)
        loop.advance(RECONCILE_INTERVAL)
        assert states(engine) == {"library": "starting"}, "an event that was missed is made up for"
        engine.post("library", SpawnFailed(engine.agents["library"].generation, "no memory"))
        world.remove(world.newest("library"))
        engine.post("library", Stop())
    shutdown = loop.run(engine.shut_down())
    assert shutdown.done
    assert not [handle for _, _, handle in loop._timers if not handle.cancelled()]


def test_a_machine_that_has_run_out_of_something_does_not_spend_an_agents_failures() -> None:
    engine, world, loop = make_engine({"library": ()}, {"library": Policy(max_failures=3)})
    engine.start(["library"])
    for _ in range(20):
        process = world.newest("library")
        world.remove(process)
        failed = SpawnFailed(process.generation, "cannot be started: too many open files", exhausted=True)
        engine.post("library", failed)
        assert states(engine) == {"library": "backoff"}
        assert engine.agents["library"].failures <= 2
        loop.advance(40.0)
    come_up(engine, world, "library")
    assert states(engine) == {"library": "ready"}


@pytest.mark.parametrize(
    ("budget", "said"), [(1, "exit status 9"), (2, "2 failures in a row; the last: exit status 9")]
)
def test_failures_are_counted_in_words_where_there_are_several(budget: int, said: str) -> None:
    engine, world, loop = started({"library": ()}, max_failures=budget)
    for _ in range(budget):
        end(engine, world, "library", Exit(status=9))
        loop.advance(1.0)
        if engine.agents["library"].state is State.STARTING:
            come_up(engine, world, "library")
    assert states(engine) == {"library": "failed"}
    assert engine.agents["library"].message == said


def on_demand(**policy: Any) -> tuple[Engine, FakeProcesses, FakeLoop]:
    """`library` starts on demand, and is idle; `research` depends on it, and is ready."""
    needs = {name: CHAIN[name] for name in ("library", "research")}
    always = replace(Policy(), on_dependency_loss="restart", **policy)
    engine, world, loop = make_engine(
        needs, {"library": replace(always, start="on-demand"), "research": always}
    )
    engine.arm(needs)
    come_up(engine, world, "research")
    return engine, world, loop


def test_one_that_wakes_and_goes_idle_is_no_loss_for_those_that_depend_on_it() -> None:
    engine, world, _ = on_demand()
    for generation in (1, 2):
        engine.post("library", Wanted())
        assert world.newest("library").generation == generation
        come_up(engine, world, "library")
        engine.post("library", BecameIdle(generation))
        assert states(engine) == {"library": "stopping", "research": "ready"}
        end(engine, world, "library", Exit(status=0))
        assert states(engine) == {"library": "idle", "research": "ready"}
    assert engine.agents["library"].restarts == 0


def test_one_that_fails_is_a_loss_and_idle_again_after_the_back_off() -> None:
    engine, world, loop = on_demand()
    engine.post("library", Wanted())
    come_up(engine, world, "library")
    end(engine, world, "library", Exit(signal=9))
    assert states(engine) == {"library": "backoff", "research": "stopping"}
    loop.advance(1.0)
    assert states(engine)["library"] == "idle"
    assert engine.agents["library"].failures == 1
    engine.post("library", Wanted())
    assert engine.agents["library"].restarts == 1, "the start that follows a failure is a restart"


def test_a_worker_that_the_operator_wanted_is_started_until_one_is_ready() -> None:
    engine, world, loop = on_demand()
    engine.start(["library"])
    end(engine, world, "library", Exit(status=1))
    assert states(engine)["library"] == "backoff"
    loop.advance(1.0)
    assert states(engine)["library"] == "starting"
    come_up(engine, world, "library")
    end(engine, world, "library", Exit(status=1))
    loop.advance(60.0)
    assert states(engine)["library"] == "idle"


def test_an_operator_who_wants_it_while_it_goes_idle_gets_it() -> None:
    engine, world, _ = on_demand()
    engine.start(["library"])
    come_up(engine, world, "library")
    engine.post("library", BecameIdle(1))
    engine.start(["library"])
    end(engine, world, "library", Exit(status=0))
    assert states(engine)["library"] == "starting"
    assert engine.agents["library"].restarts == 0


def test_a_shutdown_stops_an_idle_agent_at_once() -> None:
    engine, world, loop = on_demand()
    shutdown = loop.run(engine.shut_down())
    end(engine, world, "research", Exit(status=0))
    shutdown.go_on()
    assert shutdown.done
    assert set(states(engine).values()) == {"stopped"}


def test_no_more_agents_are_replaced_at_a_time_than_may_be() -> None:
    needs: dict[str, tuple[str, ...]] = dict.fromkeys(("one", "two", "three", "four"), ())
    engine, world, loop = started(needs)
    engine.max_surge = 0
    for name in needs:
        world.newest(name).serving = True
        engine.post(name, RollingRestart("operator"))
    engine.redefine(Graph(needs), dict.fromkeys(needs, Policy()), max_surge=2)
    loop.advance(RECONCILE_INTERVAL)
    assert sorted(call for call in world.took() if call[0] == "spawn") == [
        ("spawn", "one", 2),
        ("spawn", "two", 2),
    ]
