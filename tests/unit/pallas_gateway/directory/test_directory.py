"""The mirror beside a real control API on a real fleet without processes: what it has, what it tells, who is away."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

from pallas_common.protocol.gateway import AgentUpstream, WorkerToken
from pallas_common.protocol.reports import HealthReport
from pallas_gateway.directory import topics
from pallas_gateway.directory.events.topics import Topic
from pallas_gateway.identity.sources import AgentKey
from pallas_registry.resources.model import ResourceId
from support.gateway.mirror import Bench, bench, on_bench
from support.supervisor.control_socket import on_socket
from support.supervisor.declared import agent, file, llm, secret

if TYPE_CHECKING:
    from pathlib import Path

    from pallas_gateway.directory.records import AgentRecord


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALLAS_STATE_DIR", str(tmp_path / "state"))


def test_agents_are_as_the_supervisor_says(tmp_path: Path) -> None:
    async def do(bench: Bench) -> None:
        assert list(bench.directory.agents) == ["library", "research"]
        research = bench.directory.agents["research"]
        assert (research.title, research.description) == ("Research", "The agent research")
        assert (research.depends_on, research.source, research.uid) == (("library",), "module", None)
        assert research.port is not None
        bench.told.clear()
        bench.rig.operations.start([])
        bench.rig.come_up("library")
        bench.rig.report("library", HealthReport(status="degraded", message="search is down", timestamp=""))
        await bench.until(lambda: bench.directory.agents["library"].health == "degraded")
        library = bench.directory.agents["library"]
        assert (library.state, library.message, library.generation) == ("ready", "search is down", 1)
        assert library.since
        assert {topics.AGENTS, topics.agent_state("library"), topics.agent_snapshot("library")} <= set(
            bench.told
        )
        assert topics.agent_info("library") not in bench.told

    on_bench(tmp_path, do)


def test_what_is_said_of_a_replacement_ends_with_it(tmp_path: Path) -> None:
    async def do(bench: Bench) -> None:
        def research() -> AgentRecord:
            return bench.directory.agents["research"]

        bench.rig.operations.start([])
        bench.rig.come_up("library")
        bench.rig.come_up("research")
        await bench.until(lambda: research().state == "ready")
        bench.rig.operations.restart(["research"])
        await bench.until(lambda: "a new worker is starting" in research().message)
        bench.rig.come_up("research")
        bench.rig.report("research", HealthReport(status="degraded", message="search is down", timestamp=""))
        await bench.until(lambda: research().generation == 2)
        lines = bench.rig.manager.events.newest(100).take(1 << 20).splitlines()
        [_, took_over] = [
            event
            for event in map(json.loads, lines)
            if (event["name"], event.get("state")) == ("research", "ready")
        ]
        assert research().since == took_over["time"]
        bench.told.clear()
        bench.rig.end("research", old=True)
        await bench.until(lambda: research().message == "search is down")
        await bench.until_told(topics.agent_state("research"))
        [entry] = bench.rig.manager.status.entries(["research"])
        assert (entry["replacement"], entry["message"]) == (None, "search is down")

    on_bench(tmp_path, do)


def test_what_is_applied_is_there_and_told(tmp_path: Path) -> None:
    async def do(bench: Bench) -> None:
        bench.told.clear()
        documents = secret(), llm(), agent(outputSchema={"type": "object"})
        await bench.rig.applying.apply([file("a.yaml", *documents)], "ada")
        await bench.until(lambda: (found := bench.directory.agent("deployer")) and found.uid)
        deployer = bench.directory.agents["deployer"]
        assert (deployer.owner, deployer.description, deployer.state) == ("ada", "It deploys", "idle")
        assert (deployer.model, deployer.output_schema) == ("openai.m", {"type": "object"})
        assert (deployer.is_resource, deployer.version, deployer.start) == (True, 1, "on-demand")
        assert deployer.socket
        assert deployer.uid
        assert bench.directory.agent(deployer.uid) is deployer
        assert topics.agent_info("deployer") in bench.told
        assert Topic("tools", "agent/library") in bench.told, "it may list the new one"
        bench.told.clear()
        bench.asked.clear()
        await bench.rig.applying.apply([file("a.yaml", agent(description="Another"))], "ada")
        await bench.until(lambda: bench.directory.agents["deployer"].description == "Another")
        assert topics.agent_info("deployer") in bench.told
        assert Topic("tools", "agent/deployer") in bench.told
        assert Topic("tools", "agent/library") not in bench.told
        assert "/v1/resources/agent" not in bench.asked, "one is fetched, not all"
        assert "/v1/status" not in bench.asked

    on_bench(tmp_path, do)


def test_observers_are_told_of_deletions_and_of_what_is_only_gone(tmp_path: Path) -> None:
    async def do(bench: Bench) -> None:
        await bench.rig.applying.apply([file("a.yaml", secret(), llm(), agent())], "ada")
        await bench.until(lambda: (found := bench.directory.agent("deployer")) and found.uid)
        uid = bench.directory.agents["deployer"].uid
        assert uid
        await bench.rig.applying.delete([ResourceId("agent", "deployer")], "ada")
        await bench.until(lambda: len(bench.gone) == 2)
        assert bench.gone == [("deployer", uid, False), ("deployer", uid, True)]
        assert bench.directory.agent(uid) is None
        library = bench.rig.manager.drift.deployment.agents["library"].port
        bench.rig.write({"library": {"port": library}})
        await bench.rig.reloading.reload(dry_run=False)
        await bench.until(lambda: len(bench.gone) == 3)
        assert bench.gone[2] == ("research", None, False)

    on_bench(tmp_path, do)


def test_which_agent_it_is_is_known_as_soon_as_it_is_made(tmp_path: Path) -> None:
    async def run() -> None:
        async with bench(tmp_path) as made:
            find = made.directory.find_agent_key
            assert await find("library") is None, "not known yet"
            async with on_socket(made.app(), made.path):
                await made.until(lambda: made.directory.away is None)
                await made.rig.applying.apply([file("a.yaml", secret(), llm(), agent())], "ada")
                found = await find("deployer")
                assert found is not None
                assert found.uid
                assert await find("library") == AgentKey("library", None)
                assert await find(found.uid) is None, "that is no name"
                assert await find("nobody") is None
                await made.until(lambda: (there := made.directory.agent("deployer")) and there.uid)
            assert await find("deployer") == found
            assert await find("nobody") is None

    asyncio.run(run())


def test_while_the_supervisor_is_away_the_mirror_stays_and_says_so(tmp_path: Path) -> None:
    async def run() -> None:
        async with bench(tmp_path) as made:
            assert made.directory.away is not None
            async with on_socket(made.app(), made.path):
                await made.directory.filled()
                assert not made.directory.away, "a gateway that has just started is not called degraded"
            await made.until(lambda: made.directory.away is not None)
            assert list(made.directory.agents) == ["library", "research"]
            made.rig.operations.start([])
            made.rig.come_up("library")  # meanwhile
            made.asked.clear()
            async with on_socket(made.app(), made.path):
                await made.until(lambda: made.directory.away is None)
                await made.until(lambda: made.directory.agents["library"].state == "ready")
                assert "/v1/status" not in made.asked, "it went on where it was"

    asyncio.run(run())


def test_another_life_of_the_supervisor_is_read_anew(tmp_path: Path) -> None:
    async def run() -> None:
        async with bench(tmp_path) as made:
            async with on_socket(made.app(), made.path):
                await made.until(lambda: made.directory.away is None)
            made.rig.operations.start([])
            made.rig.come_up("library")
            made.rig.manager.events.epoch = "another"
            made.asked.clear()
            async with on_socket(made.app(), made.path):
                await made.until(lambda: made.directory.agents["library"].state == "ready")
                assert "/v1/status" in made.asked

    asyncio.run(run())


def test_ways_and_tokens_are_fetched_anew_where_a_worker_is_another(tmp_path: Path) -> None:
    async def do(bench: Bench) -> None:
        def way(generation: int) -> AgentUpstream:
            token = WorkerToken(generation=generation, digest=f"digest {generation}")
            return AgentUpstream(
                name="library",
                uid=None,
                port=1,
                socket=None,
                key=f"key {generation}",
                tokens=(token,),
                depends_on=("research",),
            )

        directory = bench.directory
        assert await directory.upstream("library") is None
        bench.upstreams["library"] = way(1)
        bench.rig.operations.start(["library"])
        bench.rig.come_up("library")
        await bench.until(lambda: directory.workers.find("digest 1"))
        found = directory.workers.find("digest 1")
        assert found is not None
        assert (found.id, found.agent, found.role, found.concurrent) == (
            "worker:library/1",
            "library",
            "agent",
            32,
        )
        assert [str(grant) for grant in found.grants] == ["run:agents:research"]
        changes: list[str] = []
        directory.workers.on_change(lambda: changes.append("tokens"))
        bench.upstreams["library"] = way(2)
        bench.asked.clear()
        assert await directory.refresh()
        assert not await directory.refresh(), "too soon"
        assert bench.asked == ["upstreams"]
        assert changes == ["tokens"]
        assert directory.workers.find("digest 1") is None
        assert directory.workers.find("digest 2") is not None
        again = await directory.upstream("library")
        assert again is not None
        assert again.key == "key 2"
        assert bench.asked == ["upstreams"], "what is new is not asked for again"

    on_bench(tmp_path, do)


def test_an_agent_whose_way_is_not_known_yet_is_asked_for_again(tmp_path: Path) -> None:
    async def do(bench: Bench) -> None:
        assert await bench.directory.upstream("library") is None
        bench.upstreams["library"] = AgentUpstream(name="library", uid=None, port=1, socket=None, key=None)
        found = await bench.directory.upstream("library")
        assert found is not None, "the supervisor tells of an agent before it has the way to it"
        assert await bench.directory.upstream("nobody") is None
        assert "upstreams nobody" not in bench.asked

    on_bench(tmp_path, do)
