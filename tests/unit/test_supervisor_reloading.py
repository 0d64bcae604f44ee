"""Reloads of a real fleet without processes; its sockets are real."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import TYPE_CHECKING

import pytest

from harness.ports import free_ports
from pallas_registry.problems import ConfigurationError
from pallas_supervisor.listeners import PortsTakenError
from pallas_supervisor.refusals import RefusedError
from unit.supervisor_fleet import Rig, rig
from unit.supervisor_processes import nothing_leaked

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path


def on_rig(
    directory: Path, agents: dict[str, dict[str, object]], do: Callable[[Rig], Awaitable[None]]
) -> None:
    async def run() -> None:
        with nothing_leaked():
            async with rig(directory, agents) as made:
                await do(made)

    asyncio.run(warmed(run()))


async def warmed(work: Awaitable[None]) -> None:
    """After what the loop opens for itself."""
    await asyncio.sleep(0)
    await work


@pytest.fixture
def two(tmp_path: Path) -> dict[str, dict[str, object]]:
    ports = free_ports(2)
    return {"library": {"port": ports[0]}, "research": {"port": ports[1], "depends_on": ["library"]}}


def answering(port: int) -> bool:
    """Whether somebody listens on the port."""
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_a_reload_that_changes_nothing_moves_nothing(tmp_path: Path, two: dict[str, dict[str, object]]):
    async def do(rig: Rig) -> None:
        rig.operations.start([])
        rig.come_up("library")
        agents = dict(rig.fleet.agents)
        plan = await rig.reloading.reload(dry_run=False)
        assert set(plan.unchanged) == set(two)
        assert all(rig.fleet.agents[name] is agent for name, agent in agents.items())

    on_rig(tmp_path, two, do)


def test_a_dry_run_only_says_what_would_be_done(tmp_path: Path, two: dict[str, dict[str, object]]):
    async def do(rig: Rig) -> None:
        deployment = rig.fleet.deployment
        rig.write({"library": {"port": free_ports(1)[0]}})
        plan = await rig.reloading.reload(dry_run=True)
        assert plan.removed == ("research",)
        assert plan.changed["library"].action == "rebind"
        assert rig.fleet.deployment is deployment
        assert set(rig.fleet.listeners) == set(two)

    on_rig(tmp_path, two, do)


def test_a_file_with_problems_changes_nothing(tmp_path: Path, two: dict[str, dict[str, object]]):
    async def do(rig: Rig) -> None:
        deployment = rig.fleet.deployment
        rig.write({**two, "jarvis": {"port": two["library"]["port"], "colour": "red"}})
        with pytest.raises(ConfigurationError) as caught:
            await rig.reloading.reload(dry_run=False)
        assert len(caught.value.problems) == 2
        assert rig.fleet.deployment is deployment

    on_rig(tmp_path, two, do)


@pytest.mark.parametrize("change", [{"registry_port": 24299}, {"name": "other"}, {"bind": "0.0.0.0"}])
def test_what_needs_a_restart_of_the_supervisor_is_refused(
    change: dict[str, object], tmp_path: Path, two: dict[str, dict[str, object]]
):
    async def do(rig: Rig) -> None:
        rig.write(two, **change)
        with pytest.raises(RefusedError, match="needs a restart of the supervisor; nothing was changed"):
            await rig.reloading.reload(dry_run=False)

    on_rig(tmp_path, two, do)


def test_a_port_that_is_taken_is_said_at_once_and_changes_nothing(
    tmp_path: Path, two: dict[str, dict[str, object]]
):
    async def do(rig: Rig) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            rig.write({**two, "jarvis": {"port": port}, "engineering": {"port": free_ports(1)[0]}})
            with pytest.raises(PortsTakenError, match=rf"port {port} \(jarvis\) is taken by .*{os.getpid()}"):
                await rig.reloading.reload(dry_run=False)
        assert list(rig.fleet.agents) == list(two)

    on_rig(tmp_path, two, do)


def test_added_and_removed_agents(tmp_path: Path, two: dict[str, dict[str, object]]):
    port = free_ports(1)[0]

    async def do(rig: Rig) -> None:
        rig.operations.start([])
        rig.come_up("library")
        rig.come_up("research")
        rig.fleet.slots.slot("research")
        rig.write({"library": two["library"], "jarvis": {"port": port, "depends_on": ["library"]}})
        reloading = asyncio.ensure_future(rig.reloading.reload(dry_run=False))
        await asyncio.sleep(0)
        assert rig.states() == {"library": "ready", "research": "stopping"}
        rig.end("research")
        await reloading
        assert rig.states() == {"library": "ready", "jarvis": "starting"}
        assert answering(port)
        assert not answering(int(str(two["research"]["port"])))
        assert "research" not in rig.fleet.slots._slots

    on_rig(tmp_path, two, do)


def test_an_agent_that_is_started_while_it_leaves_is_stopped_again(
    tmp_path: Path, two: dict[str, dict[str, object]]
):
    async def do(rig: Rig) -> None:
        rig.operations.start([])
        rig.come_up("library")
        rig.come_up("research")
        rig.write({"library": two["library"]})
        reloading = asyncio.ensure_future(rig.reloading.reload(dry_run=False))
        await asyncio.sleep(0)
        rig.operations.start(["research"])
        rig.end("research")
        assert rig.states()["research"] == "starting"
        for _ in range(10):
            await asyncio.sleep(0)
        assert rig.states()["research"] == "stopping"
        rig.end("research")
        await reloading
        assert rig.states() == {"library": "ready"}

    on_rig(tmp_path, two, do)


def test_a_new_name_may_take_over_the_port(tmp_path: Path, two: dict[str, dict[str, object]]):
    async def do(rig: Rig) -> None:
        rig.operations.start([])
        rig.come_up("library")
        rig.come_up("research")
        port = int(str(two["research"]["port"]))
        rig.write({"library": two["library"], "investigation": {"port": port}})
        reloading = asyncio.ensure_future(rig.reloading.reload(dry_run=False))
        await asyncio.sleep(0)
        assert answering(port)
        rig.end("research")
        await reloading
        assert rig.states() == {"library": "ready", "investigation": "starting"}
        assert answering(port), "nobody was refused meanwhile"
        assert rig.fleet.listeners["investigation"].getsockname()[1] == port

    on_rig(tmp_path, two, do)


def test_agents_may_swap_their_ports(tmp_path: Path, two: dict[str, dict[str, object]]):
    async def do(rig: Rig) -> None:
        rig.operations.start([])
        rig.come_up("library")
        rig.come_up("research")
        ports = {name: int(str(agent["port"])) for name, agent in two.items()}
        rig.write(
            {
                "library": {"port": ports["research"]},
                "research": {**two["research"], "port": ports["library"]},
            }
        )
        await rig.reloading.reload(dry_run=False)
        assert rig.states() == {"library": "stopping", "research": "stopping"}
        held = {name: listener.getsockname()[1] for name, listener in rig.fleet.listeners.items()}
        assert held == {"library": ports["research"], "research": ports["library"]}

    on_rig(tmp_path, two, do)


def test_a_reload_takes_its_turn(tmp_path: Path, two: dict[str, dict[str, object]]):
    async def do(rig: Rig) -> None:
        rig.operations.start([])
        rig.come_up("library")
        rig.come_up("research")
        rig.write({"library": two["library"]})
        first = asyncio.ensure_future(rig.reloading.reload(dry_run=False))
        await asyncio.sleep(0)
        rig.write(two)
        second = asyncio.ensure_future(rig.reloading.reload(dry_run=False))
        await asyncio.sleep(0)
        assert not second.done()
        rig.end("research")
        assert (await first).removed == ("research",)
        assert (await second).added == ("research",)
        assert rig.states() == {"library": "ready", "research": "starting"}

    on_rig(tmp_path, two, do)


def test_workers_get_the_new_settings(
    tmp_path: Path, two: dict[str, dict[str, object]], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("PALLAS_LOG_LEVEL", raising=False)

    async def do(rig: Rig) -> None:
        assert rig.fleet._describe("library", 1).log_level == "INFO"
        (tmp_path / "fastagent.config.yaml").write_text(
            "default_model: passthrough\nlogger:\n  level: debug\n"
        )
        plan = await rig.reloading.reload(dry_run=False)
        assert {change.action for change in plan.changed.values()} == {"respawn"}
        specification = rig.fleet._describe("library", 1)
        assert specification.log_level == "DEBUG"
        assert specification.default_model == "passthrough"

    on_rig(tmp_path, two, do)
