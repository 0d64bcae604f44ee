"""LLM providers of a real fleet: which of them are asked, what is told of them, and agents that have no key."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text

from fakes.llm_stub import LlmStub, run_llm_stub
from support.fleet.deployment import make_deployment
from support.fleet.fleet import PATIENCE, Fleet
from support.worker.patience import make_patient
from support.worker.project import call, text

if TYPE_CHECKING:
    from collections.abc import Iterator

INTERVAL = "0.5"
NO_KEY = "no API key is configured for Google: set GOOGLE_API_KEY in .env"
AGENT = """\
from fast_agent import FastAgent

fast = FastAgent("test", parse_cli_args=False)


@fast.agent(name="{name}", model="{model}", instruction="Answer.")
async def agent() -> None:
    ...
"""
CHAIN = """\
from fast_agent import FastAgent

fast = FastAgent("test", parse_cli_args=False)


@fast.agent(name="part", model="passthrough", instruction="Repeat.")
async def part() -> None:
    ...


@fast.chain(name="chain", sequence=["part"])
async def chain() -> None:
    ...
"""


@pytest.fixture(scope="module")
def stub() -> Iterator[LlmStub]:
    with run_llm_stub(models=["present"]) as running:
        yield running


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, stub: LlmStub) -> Iterator[Fleet]:
    """Two agents whose model the provider lacks, one without a key, and a chain that asks no model itself."""
    deployment = make_deployment(tmp_path_factory.mktemp("providers") / "fleet")
    deployment.settings = {
        "default_model": "anthropic.claude-of-nobody",
        "openai": {"api_key": "sk-of-the-tests", "base_url": stub.openai_url},
        "anthropic": {"api_key": "sk-ant-of-nobody", "base_url": stub.anthropic_url},
    }
    for name in ("one", "two", "keyless", "chain"):
        deployment.add(name)
        model = "google.gemini-2.5-flash" if name == "keyless" else "openai.awaited"
        source = CHAIN if name == "chain" else AGENT.format(name=name, model=model)
        (deployment.directory / "agents" / f"{name}.py").write_text(source)
    make_patient(deployment.directory / "agents")
    running = Fleet(deployment, env={"PALLAS_PROBE_INTERVAL": INTERVAL})
    running.environment.pop("GOOGLE_API_KEY", None)
    with running:
        running.wait()
        yield running


def agents(fleet: Fleet) -> dict[str, Any]:
    document: dict[str, Any] = httpx.get(f"{fleet.deployment.registry}/health", timeout=PATIENCE).json()
    agents: dict[str, Any] = document["agents"]
    return agents


def gauge(fleet: Fleet) -> dict[str, float]:
    """`pallas_llm_provider_up` by provider."""
    page = httpx.get(f"{fleet.deployment.registry}/metrics", timeout=PATIENCE).text
    samples = (s for family in parse_text(page) for s in family.samples)
    return {s.labels["provider"]: s.value for s in samples if s.name == "pallas_llm_provider_up"}


def test_a_provider_has_its_name_wherever_it_is_told_of_and_leaves_nothing_behind(
    fleet: Fleet, stub: LlmStub
) -> None:
    """Also for the agent that does not make the check itself."""

    def all_say(message: str | None) -> bool:
        found = agents(fleet)
        return all(
            entry["provider"] is not None and entry.get("message") == message
            for entry in (found["one"], found["two"])
        )

    fleet.await_that(lambda: all_say("LLM: openai: model 'awaited' not found"), "both say what is wrong")
    assert gauge(fleet) == {"openai": 0.0}
    for name in ("one", "two"):
        health = json.loads(text(call(fleet.deployment.url(name), "auto", "get_health")))
        assert health["message"] == "LLM: openai: model 'awaited' not found"
        assert agents(fleet)[name]["provider"]["name"] == "openai"
    stub.models.append("awaited")
    fleet.await_that(lambda: all_say(None), "both are well")
    assert gauge(fleet) == {"openai": 1.0}


def test_a_provider_that_no_agent_uses_is_not_asked(fleet: Fleet, stub: LlmStub) -> None:
    fleet.await_that(lambda: agents(fleet)["chain"]["checked"] is not None, "the chain has reported")
    asked = len(stub.requests)
    stub.loopback.wait_for(lambda requests: len(requests) > asked + 1, PATIENCE)
    assert {request.path for request in stub.requests} == {"/v1/models"}
    entry = agents(fleet)["chain"]
    assert (entry["status"], entry["provider"]) == ("ok", None)

    def told(provider: str) -> list[str]:
        records = (r for r in fleet.records() if "worker" in r["logger"])
        return [r["message"] for r in records if provider in r["message"]]

    fleet.await_that(lambda: bool(told("openai")), "the log tells of the provider that is used")
    assert told("anthropic") == []


def test_an_agent_without_a_key_says_error_and_which_variable_to_set(fleet: Fleet) -> None:
    fleet.await_that(lambda: agents(fleet)["keyless"]["status"] == "error", "its health is an error")
    assert agents(fleet)["keyless"]["message"] == NO_KEY
    health = json.loads(text(call(fleet.deployment.url("keyless"), "auto", "get_health")))
    assert (health["status"], health["message"]) == ("error", NO_KEY)
    assert call(fleet.deployment.url("keyless"), "auto", "keyless", message="hello").is_error
    shown = fleet.ctl("health")
    assert shown.returncode == 0, "others can serve"
    assert NO_KEY in shown.stdout
    fleet.await_that(lambda: f"keyless: cannot answer: {NO_KEY}" in fleet.stderr, "the terminal says so, too")
