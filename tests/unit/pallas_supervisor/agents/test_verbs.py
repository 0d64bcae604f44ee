"""The operator's verbs on real parts and sockets, but without processes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pallas_common.protocol.reports import IdleReport
from pallas_supervisor.agents.errors import RefusedError, UnknownAgentError
from pallas_supervisor.lifecycle.states import Exit
from support.supervisor.rig import Rig, on_rig, two_agents

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def two() -> dict[str, dict[str, object]]:
    return two_agents()


def test_unknown_agents_are_named_with_those_that_there_are(
    tmp_path: Path, two: dict[str, dict[str, object]]
) -> None:
    async def do(rig: Rig) -> None:
        with pytest.raises(
            UnknownAgentError,
            match="there are no agents 'jarvis', 'nobody'; the agents are: library, research",
        ):
            rig.operations.start(["nobody", "research", "jarvis"])
        assert set(rig.states().values()) == {"stopped"}
        assert rig.operations.resolve([]) == ("library", "research")

    on_rig(tmp_path, two, do)


def test_start_brings_what_is_needed_and_waits_for_what_was_named(
    tmp_path: Path, two: dict[str, dict[str, object]]
) -> None:
    async def do(rig: Rig) -> None:
        assert rig.operations.start(["research"]) == ("research",)
        waiting = asyncio.ensure_future(rig.operations.wait(["research"], "ready"))
        rig.come_up("library")
        await asyncio.sleep(0)
        assert not waiting.done()
        rig.come_up("research")
        assert await waiting is True

    on_rig(tmp_path, two, do)


def test_waiting_ends_with_no_when_the_goal_cannot_be_reached(
    tmp_path: Path, two: dict[str, dict[str, object]]
) -> None:
    async def do(rig: Rig) -> None:
        rig.operations.start([])
        waiting = asyncio.ensure_future(rig.operations.wait(["library"], "ready"))
        rig.appear("library")
        rig.end("library", Exit(status=78))
        assert rig.states()["library"] == "failed"
        assert await waiting is False
        assert await rig.operations.wait(["library"], "settled") is True

    on_rig(tmp_path, two, do)


def test_a_restart_is_done_when_the_old_worker_is_gone(
    tmp_path: Path, two: dict[str, dict[str, object]]
) -> None:
    async def do(rig: Rig) -> None:
        rig.operations.start([])
        rig.come_up("library")
        rig.come_up("research")
        before = rig.operations.newest()
        rig.operations.restart(["library"])
        waiting = asyncio.ensure_future(rig.operations.wait(["library"], "ready", beyond=before))
        await asyncio.sleep(0)
        assert not waiting.done()
        rig.come_up("library")
        await asyncio.sleep(0)
        assert not waiting.done()
        rig.end("library", old=True)
        assert await waiting is True
        assert rig.states()["research"] == "ready"

    on_rig(tmp_path, two, do)


def test_a_restart_that_fails_is_told(tmp_path: Path, two: dict[str, dict[str, object]]) -> None:
    async def do(rig: Rig) -> None:
        rig.operations.start([])
        rig.come_up("library")
        rig.come_up("research")
        before = rig.operations.newest()
        rig.operations.restart([])
        waiting = asyncio.ensure_future(rig.operations.wait([], "ready", beyond=before))
        rig.appear("library")
        rig.end("library", Exit(status=1))
        assert await waiting is False
        assert (
            rig.manager.status.why("library")
            == "could not be replaced, the old worker goes on: exit status 1"
        )
        assert {agent.generation for agent in rig.manager.engine.agents.values()} == {1}

    on_rig(tmp_path, two, do)


def test_what_others_need_is_not_stopped_alone(tmp_path: Path, two: dict[str, dict[str, object]]) -> None:
    async def do(rig: Rig) -> None:
        rig.operations.start([])
        rig.come_up("library")
        rig.come_up("research")
        with pytest.raises(RefusedError, match="research needs library; stop it as well"):
            rig.operations.stop(["library"])
        assert rig.operations.stop(["library"], cascade=True) == ("library", "research")
        rig.end("research")
        rig.end("library")
        rig.operations.start(["library"])
        rig.come_up("library")
        assert rig.operations.stop(["library"]) == ("library",)
        rig.end("library")

    on_rig(tmp_path, two, do)


def on_demand() -> dict[str, dict[str, object]]:
    """`research`, which depends on `library`; both start on demand."""
    return {name: {**agent, "start": "on-demand"} for name, agent in two_agents().items()}


def test_start_of_those_that_start_on_demand_starts_the_named_ones_only(tmp_path: Path) -> None:
    async def do(rig: Rig) -> None:
        rig.operations.start([])
        assert rig.states() == {"library": "idle", "research": "idle"}
        assert await rig.operations.wait([], "ready") is True
        rig.operations.start(["research"])
        assert rig.states() == {"library": "idle", "research": "starting"}
        waiting = asyncio.ensure_future(rig.operations.wait(["research"], "ready"))
        await asyncio.sleep(0)
        assert not waiting.done()
        rig.appear("research")
        rig.end("research", Exit(status=78))
        assert await waiting is False, "it is not idle before it has been ready"

    on_rig(tmp_path, on_demand(), do)


def test_a_restart_of_one_without_a_worker_is_done_at_once(tmp_path: Path) -> None:
    async def do(rig: Rig) -> None:
        rig.operations.start([])
        for restart in (rig.operations.restart, rig.operations.restart_now):
            beyond = rig.operations.newest()
            restart([])
            assert rig.states() == {"library": "idle", "research": "idle"}
            assert await rig.operations.wait([], "ready", beyond=beyond) is True
        rig.operations.stop(["research"])
        rig.operations.restart([])
        assert rig.states()["research"] == "idle", "it is armed like all others"

    on_rig(tmp_path, on_demand(), do)


def test_a_restart_of_one_that_goes_idle_is_done_once_it_is(tmp_path: Path) -> None:
    async def do(rig: Rig) -> None:
        rig.operations.start(["library"])
        rig.come_up("library")
        rig.report("library", IdleReport())
        assert rig.states()["library"] == "stopping"
        beyond = rig.operations.newest()
        rig.operations.restart(["library"])
        waiting = asyncio.ensure_future(rig.operations.wait(["library"], "ready", beyond=beyond))
        await asyncio.sleep(0)
        assert not waiting.done()
        rig.end("library")
        assert await waiting is True
        assert rig.states()["library"] == "idle"

    on_rig(tmp_path, on_demand(), do)
