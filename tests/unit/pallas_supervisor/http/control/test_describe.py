"""The documents of one agent and of the configuration in effect, over the control API."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from pallas_common.protocol.reports import (
    DownstreamHealth,
    HealthReport,
    PartReport,
    ReadyReport,
    ServerReport,
)
from pallas_supervisor.lifecycle.states import Exit
from pallas_supervisor.logs.router import SUPERVISOR
from support.ports import free_ports
from support.supervisor.rig import Rig, rig

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

type Ask = Callable[[str], Awaitable[dict[str, Any]]]

PART = PartReport(name="main", kind="agent", model="openai.gpt-5", servers=("files",), tools=("files__read",))
READY = ReadyReport(
    model="openai.gpt-5",
    capabilities=None,
    served="main",
    parts=(PART,),
    servers=(ServerReport(name="files", transport="http", target="http://localhost:1/mcp"),),
)
SICK = HealthReport(
    status="degraded",
    timestamp="2026-01-01T00:00:00Z",
    message="files is down",
    downstreams=(DownstreamHealth(name="files", up=False, latency=0.1, error="refused"),),
)


SHOWN = {
    "MODE": "fast",
    "AUTHOR": "Jane",
    "MODEL": "claude-sonnet-4-5-20250929",
    "DATA": "/var/lib/data/2026/archive",
    "COUNT": "12345678901234567890",
}
HIDDEN = {
    "API_TOKEN": "hunter22hunter22",
    "AUTH": "dXNlcjpwYXNz",
    "PWD_DB": "geheim",
    "SERPER": "0a1b2c3d4e5f60718293",
    "PINECONE": "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
}


def asked(directory: Path, do: Callable[[Rig, Ask], Awaitable[None]], **fields: Any) -> None:
    async def run() -> None:
        library, research = free_ports(2)
        agents: dict[str, dict[str, Any]] = {
            "library": {"port": library, "env": SHOWN | HIDDEN},
            "research": {"port": research, "depends_on": ["library"], "max_failures": 2},
        }
        async with rig(directory, agents, **fields) as made:
            transport = httpx.ASGITransport(made.control_api(), raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://pallas") as client:

                async def ask(path: str) -> dict[str, Any]:
                    answer: dict[str, Any] = (await client.get(path)).json()
                    return answer

                await do(made, ask)

    asyncio.run(run())


def by_name(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in rows}


def test_settings_say_where_they_come_from(tmp_path: Path) -> None:
    async def do(rig: Rig, ask: Ask) -> None:
        document = await ask("/v1/agents/research")
        lines = rig.manager.drift.source.path.read_text().splitlines()
        rows = by_name(document["settings"])
        assert lines[document["definition"]["line"] - 1].strip() == "research:"
        assert rows["max_failures"]["value"] == 2
        assert rows["max_failures"]["from"] == "agents.yaml"
        assert lines[rows["max_failures"]["line"] - 1].strip() == "max_failures: 2"
        assert (rows["stop_timeout"]["value"], rows["stop_timeout"]["from"]) == (5.0, "defaults")
        assert lines[rows["stop_timeout"]["line"] - 1].strip() == "stop_timeout: 5"
        assert rows["restart"] == {"name": "restart", "value": "always", "from": "built in", "line": None}
        assert "icon" not in rows

    asked(tmp_path, do, defaults={"stop_timeout": 5})


@pytest.mark.parametrize("path", ["/v1/agents/library", "/v1/configuration"])
def test_no_document_holds_a_secret(tmp_path: Path, path: str) -> None:
    async def do(_: Rig, ask: Ask) -> None:
        document = await ask(path)
        [agent, *_rest] = document.get("agents", [document])
        rows = by_name(agent["env"])
        assert {name: row["value"] for name, row in rows.items() if not row["hidden"]} == SHOWN
        assert {name: row["value"] for name, row in rows.items() if row["hidden"]} == dict.fromkeys(HIDDEN)
        assert "hunter22" not in str(document)

    asked(tmp_path, do)


def test_what_is_served_with_the_health_of_its_servers(tmp_path: Path) -> None:
    async def do(rig: Rig, ask: Ask) -> None:
        assert (await ask("/v1/agents/library"))["served"] is None
        rig.operations.start([])
        rig.appear("library")
        rig.report("library", READY)
        rig.come_up("library")
        rig.report("library", SICK)
        document = await ask("/v1/agents/library")
        served = document["served"]
        assert (served["agent"], served["model"]) == ("main", "openai.gpt-5")
        assert served["parts"][0]["tools"] == ["files__read"]
        [server] = served["servers"]
        assert (server["name"], server["target"]) == ("files", "http://localhost:1/mcp")
        assert (server["health"]["up"], server["health"]["error"]) == (False, "refused")
        assert document["health"]["message"] == "files is down"
        assert "files" in document["health"]["remedy"]

    asked(tmp_path, do)


def test_dependencies_both_ways(tmp_path: Path) -> None:
    async def do(rig: Rig, ask: Ask) -> None:
        rig.operations.start([])
        rig.come_up("library")
        library, research = await ask("/v1/agents/library"), await ask("/v1/agents/research")
        assert library["depends_on"] == []
        assert [one["name"] for one in library["dependents"]] == ["research"]
        assert research["depends_on"] == [{"name": "library", "state": "ready", "health": "ok"}]
        assert research["dependents"] == []
        assert research["urls"]["mcp"].endswith(f":{research['status']['port']}/mcp")

    asked(tmp_path, do)


def test_exits_come_with_what_the_worker_wrote_last(tmp_path: Path) -> None:
    async def do(rig: Rig, ask: Ask) -> None:
        rig.operations.start(["library"])
        rig.come_up("library")
        router = rig.manager.log_router
        for generation in (1, 2):
            record = {"time": f"2026-01-01T00:00:0{generation}Z", "level": "ERROR", "generation": generation}
            router.put("library", {**record, "logger": "pallas.output", "message": f"last of {generation}"})
        router.put(
            "library", {"generation": 1, "logger": "pallas.supervisor.fleet", "message": "not its own"}
        )
        router.put(SUPERVISOR, {"generation": 1, "message": "not of it"})
        rig.end("library", Exit(signal=9))
        document = await ask("/v1/agents/library")
        [past] = document["exits"]
        assert (past["exit"], past["asked"], past["generation"]) == ("killed by SIGKILL", False, 1)
        assert [line["message"] for line in past["lines"]] == ["last of 1"]
        assert [error["message"] for error in document["errors"]][:2] == ["last of 1", "last of 2"]

    asked(tmp_path, do)


def test_an_unknown_agent(tmp_path: Path) -> None:
    async def do(_: Rig, ask: Ask) -> None:
        answer = await ask("/v1/agents/reserch")
        assert answer == {"error": "there is no agent 'reserch'; did you mean 'research'?"}

    asked(tmp_path, do)


def test_the_configuration_in_effect_is_the_one_taken_over(tmp_path: Path) -> None:
    async def do(rig: Rig, ask: Ask) -> None:
        before = await ask("/v1/configuration")
        assert before["files"] == {"changed": [], "problems": 0}
        path = rig.manager.drift.source.path
        path.write_text(path.read_text().replace("max_failures: 2", "max_failures: 4"))
        after = await ask("/v1/configuration")
        assert after["files"] == {"changed": ["agents.yaml"], "problems": 0}
        assert after["agents"] == before["agents"]
        assert [agent["name"] for agent in after["agents"]] == ["library", "research"]

    asked(tmp_path, do)


def test_behind_a_gateway_its_metrics_are_for_this_machine(tmp_path: Path) -> None:
    async def do(rig: Rig, ask: Ask) -> None:
        urls = (await ask("/v1/agents/library"))["urls"]
        port = rig.manager.drift.deployment.agents["library"].port
        assert urls["mcp"] == "https://agents.example.com/mcp/agents/library"
        assert urls["metrics"] == f"http://localhost:{port}/metrics"

    [port] = free_ports(1)
    gateway = {"port": port, "public_url": "https://agents.example.com", "workers": "behind"}
    asked(tmp_path, do, host="agents.example.com", bind="127.0.0.1", gateway=gateway)


def test_what_is_in_effect_for_the_gateway_without_its_password(tmp_path: Path) -> None:
    async def do(rig: Rig, ask: Ask) -> None:
        document = await ask("/v1/configuration")
        rows = by_name(document["deployment"])
        lines = rig.manager.drift.source.path.read_text().splitlines()
        assert rows["gateway.port"]["value"] == port
        assert rows["gateway.port"]["from"] == "agents.yaml"
        assert lines[rows["gateway.port"]["line"] - 1].strip() == f"port: {port}"
        assert rows["gateway.workers"]["from"] == "built in"
        assert rows["gateway.limits"]["value"]["concurrent"] == 3
        assert rows["gateway.store"]["value"].startswith("postgresql://pallas:")
        assert "hunter22" not in str(document)

    [port] = free_ports(1)
    store = "postgresql://pallas:hunter22@db.example.com/pallas"
    asked(tmp_path, do, gateway={"port": port, "store": store, "limits": {"concurrent": 3}})
