"""Real clients against a real fleet: the MCP SDK in both eras, the catalogue, Prometheus' view."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import TYPE_CHECKING

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.clients import ERAS, call, connect, send_message
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet, Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.clients import Era


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    deployment = make_deployment(tmp_path_factory.mktemp("clients") / "fleet", "one", "two_words")
    for name, agent in deployment.agents.items():
        deployment.servers[name] = {"transport": "http", "url": f"http://127.0.0.1:{agent['port']}/mcp"}
    deployment.add("asks", servers=("one", "two_words"), depends_on=["one", "two_words"])
    with Fleet(deployment) as fleet:
        fleet.wait()
        yield fleet


@pytest.mark.parametrize("era", ERAS)
def test_every_worker_lists_and_answers_its_tools(fleet: Fleet, era: Era) -> None:
    async def visit(name: str) -> None:
        async with connect(fleet.deployment.url(name), era) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert set(tools) == {"send_message", name, "get_health"}
            assert tools[name].input_schema == tools["send_message"].input_schema
            assert set(tools[name].input_schema["properties"]) == {
                "message", "images", "history", "conversation_id",
            }  # fmt: skip
            prompt = await client.get_prompt(f"{name}_history")
            assert prompt.messages == []
        assert await send_message(fleet.deployment.url(name), f"hello {name}", era) == f"hello {name}"
        assert await call(fleet.deployment.url(name), name, era, message="by name") == (False, "by name")

    def is_well(name: str) -> bool:
        failed, health = asyncio.run(call(fleet.deployment.url(name), "get_health", era))
        assert not failed, health
        return str(json.loads(health)["status"]) == "ok"

    for name in ("one", "two_words", "asks"):
        asyncio.run(visit(name))
        # A probe may have found that a server stood still; the next one finds that it does not.
        fleet.await_that(partial(is_well, name), f"{name} is well")


@pytest.mark.parametrize("era", ERAS)
def test_a_long_history_is_taken_and_malformed_rows_are_in_the_log(fleet: Fleet, era: Era) -> None:
    rows: list[object] = [
        {"role": "user" if i % 2 == 0 else "assistant", "content": f"row {i}"} for i in range(200)
    ]
    rows[10] = {"role": "wizard", "content": "not a role"}
    rows[77] = {"role": "user"}
    rows[150] = "not a row"
    url = fleet.deployment.url("one")

    def warns_of(index: int, record: Record) -> bool:
        return (
            record["level"] == "WARNING" and record.get("agent") == "one" and str(index) in record["message"]
        )

    with fleet.follow() as log:
        answer = asyncio.run(send_message(url, "and now?", era, history=rows, conversation_id=f"c-{era}"))
        assert answer == "and now?"
        for index in (10, 77, 150):
            log.until(partial(warns_of, index))


def test_one_agent_asks_another_over_mcp(fleet: Fleet) -> None:
    url = fleet.deployment.url("asks")
    question = '***CALL_TOOL two_words__two_words {"message": "what do you say?"}'
    assert "what do you say?" in asyncio.run(send_message(url, question))
    metrics = httpx.get(f"{fleet.deployment.registry}/metrics").text
    calls = [
        (sample.labels["server"], sample.labels["operation"], sample.labels["outcome"], sample.value)
        for family in text_string_to_metric_families(metrics)
        for sample in family.samples
        if sample.name == "pallas_tool_calls_total" and sample.labels["agent"] == "asks"
    ]
    assert ("two_words", "tool", "ok", 1.0) in calls


@pytest.mark.parametrize("path", ["/.well-known/mcp/server.json", "/v0.1/servers"])
def test_the_catalogue_leads_to_the_agents(fleet: Fleet, path: str) -> None:
    servers = httpx.get(fleet.deployment.registry + path).json()["servers"]
    urls = {entry["server"]["title"]: entry["server"]["remotes"][0]["url"] for entry in servers}
    assert set(urls) == {"One", "Two_Words", "Asks"}
    for url in urls.values():
        assert asyncio.run(send_message(url, "found you")) == "found you"


def test_the_merged_metrics_have_every_agent_and_the_agents_port_only_its_own(fleet: Fleet) -> None:
    for name in ("one", "two_words"):
        asyncio.run(send_message(fleet.deployment.url(name), "count"))
    merged = httpx.get(f"{fleet.deployment.registry}/metrics")
    assert merged.headers["content-type"].startswith("text/plain; version=0.0.4")
    names = {family.name for family in text_string_to_metric_families(merged.text)}
    assert {
        "pallas_up", "pallas_agent_info", "pallas_send_message", "pallas_send_message_duration_seconds",
        "pallas_agent_health_status", "pallas_worker_state", "pallas_worker_start_seconds",
        "pallas_worker_resident_memory_bytes", "pallas_worker_cpu_seconds", "pallas_worker_open_fds",
        "pallas_worker_start_time_seconds", "process_resident_memory_bytes",
    } <= names  # fmt: skip
    own = httpx.get(fleet.deployment.url("one").replace("/mcp", "/metrics")).text
    agents = {
        sample.labels["agent"]
        for family in text_string_to_metric_families(own)
        for sample in family.samples
        if "agent" in sample.labels
    }
    assert agents == {"one"}


def test_health_is_ok_when_everything_is(fleet: Fleet) -> None:
    def health() -> httpx.Response:
        return httpx.get(f"{fleet.deployment.registry}/health")

    assert health().status_code == 200
    fleet.await_that(lambda: health().json()["status"] == "ok", "all are well")
    assert set(health().json()["agents"]) == {"one", "two_words", "asks"}
    assert httpx.get(f"{fleet.deployment.registry}/readyz").status_code == 200
