"""What is done on which socket while no worker serves: on a real loop, with real sockets and no processes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from pallas_common.protocol.reports import IdleReport
from pallas_supervisor.lifecycle.events import Died, Reaped, Stop, Wanted
from pallas_supervisor.lifecycle.states import Exit, Policy
from pallas_supervisor.sockets.unserved.switch import UnavailableResponders
from support.ports import free_ports
from support.supervisor.fakes import make_engine
from support.supervisor.rig import on_rig

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.supervisor.rig import Rig

IDLE = {"start": "on-demand"}


def agents(**fields: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Agents on free ports."""
    return {
        name: {"port": port, **more}
        for (name, more), port in zip(fields.items(), free_ports(len(fields)), strict=True)
    }


async def until(reached: Callable[[], bool]) -> None:
    """Let the loop turn until it is so."""
    async with asyncio.timeout(60):
        while not reached():  # noqa: ASYNC110 - the loop is at work
            await asyncio.sleep(0)


def test_a_connection_wakes_an_idle_agent_and_only_that(tmp_path: Path) -> None:
    deployed = agents(one=IDLE, two=IDLE, three={})

    async def do(rig: Rig) -> None:
        engine, responders = rig.manager.engine, rig.manager.responders
        assert responders.answering == {"one", "two", "three"}
        engine.arm(engine.agents)
        assert rig.states() == {"one": "idle", "two": "idle", "three": "starting"}
        assert (responders.answering, responders.watched) == (set(), {"one", "two"})
        _, writer = await asyncio.open_connection("127.0.0.1", deployed["one"]["port"])
        await until(lambda: rig.states()["one"] == "starting")
        assert (responders.watched, rig.states()["two"]) == ({"two"}, "idle")
        rig.come_up("one")
        engine.post("one", Stop())
        rig.end("one")
        assert responders.answering == {"one"}
        writer.close()

    on_rig(tmp_path, deployed, do)


def test_one_that_becomes_idle_with_a_connection_waiting_wakes_at_once(tmp_path: Path) -> None:
    deployed = agents(one=IDLE)

    async def do(rig: Rig) -> None:
        rig.operations.start(["one"])
        _, writer = await asyncio.open_connection("127.0.0.1", deployed["one"]["port"])
        rig.come_up("one")
        rig.report("one", IdleReport())
        assert rig.states() == {"one": "stopping"}
        rig.end("one")
        assert rig.states() == {"one": "idle"}
        await until(lambda: rig.states()["one"] == "starting")
        assert rig.manager.engine.agents["one"].generation == 2
        writer.close()

    on_rig(tmp_path, deployed, do)


def test_nobody_is_woken_once_the_supervisor_leaves(tmp_path: Path) -> None:
    deployed = agents(one=IDLE)

    async def do(rig: Rig) -> None:
        rig.manager.engine.arm(["one"])
        rig.manager.responders.retire()
        _, writer = await asyncio.open_connection("127.0.0.1", deployed["one"]["port"])
        for _ in range(10):
            await asyncio.sleep(0)
        assert rig.states() == {"one": "idle"}
        writer.close()

    on_rig(tmp_path, deployed, do)


def test_whoever_waits_for_what_does_not_come_is_answered_for() -> None:
    """`woken` serves nobody without `base`, but is there on demand, so that `top` waits for `slow` alone."""
    needs = {"base": (), "woken": ("base",), "slow": (), "top": ("slow", "woken")}
    policies = {name: Policy(start="on-demand" if name == "woken" else "always") for name in needs}
    engine, world, loop = make_engine(needs, policies)
    with patch("asyncio.get_running_loop", return_value=loop):
        responders = UnavailableResponders(engine, {}, str, lambda _: False, lambda _: None)
    engine.observers.transition.add(responders.follow)
    engine.arm(needs)
    assert responders.unserved == set()
    engine.post("base", Stop())
    base = world.newest("base")
    base.dead = base.spawned = True
    engine.post("base", Died(base.generation, Exit(status=0)))
    world.remove(base)
    engine.post("base", Reaped(base.generation))
    assert responders.unserved == {"base"}
    engine.post("woken", Wanted())
    assert responders.unserved == {"base", "woken"}
    engine.post("woken", Stop())
    assert responders.unserved == {"base", "woken", "top"}
    engine.start(["woken"])
    assert responders.unserved == set()
