"""The gateway beside the agents: stepped by an engine of its own, shown apart, moved by reloads."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from pallas_common.protocol.gateway import GATEWAY_NAME
from pallas_common.protocol.reports import HealthReport
from pallas_common.times import ago
from pallas_supervisor.lifecycle.events import Died, Ready, Reaped, Spawned
from pallas_supervisor.lifecycle.states import Exit, State, WorkerId
from support.ports import free_ports
from support.supervisor.rig import rig

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from support.supervisor.rig import Rig


def on_gateway(directory: Path, do: Callable[[Rig], Awaitable[None]], **settings: Any) -> None:
    """Do something with the parts of a deployment with a gateway and no agent."""

    async def run() -> None:
        (port,) = free_ports(1)
        fields: dict[str, Any] = {
            "gateway": {"port": port, **settings},
            "registry_port": free_ports(1)[0],
        }
        async with rig(directory, {"library": {"port": free_ports(1)[0]}}, **fields) as made:
            made.gateway.arm()
            await do(made)

    asyncio.run(run())


def come_up(rig: Rig) -> int:
    """Let its newest process be ready; its generation."""
    process = rig.world.newest(GATEWAY_NAME)
    process.spawned = True
    rig.gateway.engine.post(GATEWAY_NAME, Spawned(process.generation, 5000))
    process.serving = True
    rig.gateway.engine.post(GATEWAY_NAME, Ready(process.generation))
    return process.generation


def end(rig: Rig, exit_: Exit) -> None:
    """End its oldest process."""
    process = rig.world.of(GATEWAY_NAME)[0]
    process.dead = True
    rig.gateway.engine.post(GATEWAY_NAME, Died(process.generation, exit_))
    rig.world.remove(process)
    rig.gateway.engine.post(GATEWAY_NAME, Reaped(process.generation))


def is_stopping(rig: Rig) -> bool:
    """Whether its process was asked to drain and to end."""
    agent = rig.gateway.agent
    return agent is not None and agent.state is State.STOPPING


async def control(rig: Rig, method: str, path: str, body: object = None) -> tuple[int, dict[str, Any]]:
    """What the control API answers."""
    transport = httpx.ASGITransport(rig.control_api())
    async with httpx.AsyncClient(transport=transport, base_url="http://pallas") as client:
        answer = await client.request(method, path, json=body)
        return answer.status_code, answer.json()


def test_it_is_no_agent_and_is_shown_beside_them(tmp_path: Path) -> None:
    async def do(rig: Rig) -> None:
        assert GATEWAY_NAME not in rig.manager.engine.agents
        generation = come_up(rig)
        _, document = await control(rig, "GET", "/v1/status")
        assert [agent["name"] for agent in document["agents"]] == ["library"]
        settings = rig.manager.drift.deployment.gateway
        assert settings is not None
        shown = {name: document["gateway"][name] for name in ("state", "pid", "port", "health", "generation")}
        assert shown == {
            "state": "ready",
            "pid": 5000,
            "port": settings.port,
            "health": "ok",
            "generation": generation,
        }
        said = HealthReport(status="degraded", timestamp=ago(), message="the audit cannot be written")
        rig.manager._take(WorkerId(GATEWAY_NAME, generation), said)
        _, health = await control(rig, "GET", "/v1/health")
        assert health["gateway"]["message"] == "the audit cannot be written"
        assert "library" in health["agents"]
        transport = httpx.ASGITransport(rig.control_api())
        async with httpx.AsyncClient(transport=transport, base_url="http://pallas") as client:
            lines = (await client.get("/v1/events?kind=gateway")).text.splitlines()
        told = [json.loads(line) for line in lines]
        assert {event["name"] for event in told} == {"gateway"}
        states = [event["state"] for event in told if event["event"] == "state"]
        assert states == ["waiting", "starting", "ready"]
        assert [event["health"] for event in told if event["event"] == "health"] == ["degraded"]

    on_gateway(tmp_path, do)


@pytest.mark.parametrize(("workers", "overall"), [("open", "degraded"), ("behind", "error")])
def test_the_health_of_all_counts_it(tmp_path: Path, workers: str, overall: str) -> None:
    async def do(rig: Rig) -> None:
        rig.operations.start(["library"])
        rig.come_up("library")
        come_up(rig)
        assert (await control(rig, "GET", "/v1/health"))[1]["status"] == "ok"
        before = rig.manager.status.is_ready
        end(rig, Exit(status=78))
        _, health = await control(rig, "GET", "/v1/health")
        assert (health["status"], health["gateway"]["state"]) == (overall, "failed")
        assert (before, rig.manager.status.is_ready) == (True, False)
        assert "gateway: " in rig.manager.status.summary()

    on_gateway(tmp_path, do, workers=workers)


def test_verbs(tmp_path: Path) -> None:
    async def do(rig: Rig) -> None:
        come_up(rig)
        stopping = asyncio.create_task(control(rig, "POST", "/v1/gateway/stop", {}))
        await rig.gateway.engine.until(lambda: is_stopping(rig))
        end(rig, Exit(status=0))
        status, answer = await stopping
        assert (status, answer["done"], answer["gateway"]["state"]) == (200, True, "stopped")
        status, answer = await control(rig, "POST", "/v1/gateway/start", {"timeout": 0})
        assert (status, answer["done"], answer["gateway"]["state"]) == (504, False, "starting")
        assert (await control(rig, "POST", "/v1/gateway/start", {"agents": ["library"]}))[0] == 422
        assert (await control(rig, "POST", "/v1/gateway/dance", {}))[0] == 404

    on_gateway(tmp_path, do)


def test_a_deployment_without_one(tmp_path: Path) -> None:
    async def run() -> None:
        async with rig(tmp_path, {"library": {"port": free_ports(1)[0]}}) as made:
            made.gateway.arm()
            assert (await control(made, "GET", "/v1/status"))[1]["gateway"] is None
            assert "gateway" not in (await control(made, "GET", "/v1/health"))[1]
            status, answer = await control(made, "POST", "/v1/gateway/restart", {})
            assert status == 409
            assert "`gateway: {}`" in answer["error"]

    asyncio.run(run())


def test_a_reload_adds_changes_moves_and_removes_it(tmp_path: Path) -> None:
    async def run() -> None:
        first, second, library, registry = free_ports(4)
        agents = {"library": {"port": library}}
        async with rig(tmp_path, agents, registry_port=registry) as made:

            async def reload(**gateway: Any) -> None:
                fields = {"gateway": gateway} if gateway else {}
                made.write(agents, registry_port=registry, **fields)
                await made.reloading.reload(dry_run=False)

            await reload(port=first)
            assert come_up(made) == 1
            assert made.gateway.responders.listeners[GATEWAY_NAME].getsockname()[1] == first
            await reload(port=first, audit_content=True)
            assert come_up(made) == 2  # beside the old one
            end(made, Exit(status=0))
            await reload(port=second, audit_content=True)
            assert made.gateway.responders.listeners[GATEWAY_NAME].getsockname()[1] == second
            assert is_stopping(made)
            end(made, Exit(status=0))
            assert come_up(made) > 2
            leaving = asyncio.create_task(reload())
            await made.gateway.engine.until(lambda: is_stopping(made))
            while made.world.of(GATEWAY_NAME):
                end(made, Exit(status=0))
            await leaving
            assert made.gateway.responders.listeners == {}
            assert (await control(made, "GET", "/v1/status"))[1]["gateway"] is None

    asyncio.run(run())


def test_only_who_is_alone_waits_for_a_store(tmp_path: Path) -> None:
    async def act(rig: Rig) -> None:
        generation = come_up(rig)

        async def waits(of: int) -> bool:
            spec = await rig.gateway._prepare(WorkerId(GATEWAY_NAME, of))
            return spec.waits_for_store

        assert await waits(generation)
        assert not await waits(generation + 1), "the old one answers: better than one that cannot"
        report = HealthReport(status="error", timestamp=ago(), message="the store is away")
        rig.gateway._take(WorkerId(GATEWAY_NAME, generation), report)
        assert await waits(generation + 1), "the old one cannot answer either"
        assert rig.gateway.status.trouble() == "the store is away"

    on_gateway(tmp_path, act)
