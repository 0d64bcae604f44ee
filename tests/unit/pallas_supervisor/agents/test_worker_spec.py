"""What a worker is told, from a deployment: nothing of the agent's entry gets lost on the way."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import pytest

from pallas_common.logs.levels import Levels
from pallas_common.protocol.agent.definition import AgentDefinition
from pallas_common.protocol.agent.settings import RULES, AgentSettings, Choice, Rule, Truth, settings_of
from pallas_common.protocol.agent.source import AgentSource
from pallas_common.protocol.gateway import GatewaySettings, WorkerToken, gateway_urls
from pallas_common.protocol.spec import WorkerSpec
from pallas_common.secrets.tokens import is_token, token_digest
from pallas_registry.deployment.model import Agent, Deployment, ModelSettings
from pallas_registry.resources.assembly import assemble
from pallas_registry.resources.files import KeptResources
from pallas_registry.source import Configuration
from pallas_supervisor.agents.worker_spec import StartKeys, policy_of, worker_spec
from pallas_supervisor.lifecycle.states import Policy, WorkerId


def spec(**settings: Any) -> WorkerSpec:
    agent = Agent(
        name="a", module=AgentSource("module", "m"), port=9000, title="A", description="An agent", **settings
    )
    deployment = Deployment(
        name="demo", agents={"a": agent}, namespace="local.demo", bind="127.0.0.1", path=Path("agents.yaml")
    )
    return worker_spec(
        Configuration(
            deployment=deployment,
            assembly=assemble(deployment, KeptResources()),
            settings=ModelSettings(),
            levels=Levels("INFO", "WARNING"),
            dotenv={},
        ),
        name="a",
        generation=3,
        environ={"HOME": "/home/x", "NOTIFY_SOCKET": "/run/s"},
        directory="/srv",
        metrics=("/run/m", "a1"),
    )


def other(rule: Rule) -> object:
    """A value that is no setting's default."""
    match rule:
        case Choice(words):
            return words[-1]
        case Truth():
            return True
        case _:
            return rule.minimum + 7


def test_a_worker_reaches_the_deployment_through_no_proxy() -> None:
    environment = spec(env={"HTTPS_PROXY": "http://proxy.test:1"}).environment
    assert environment["NO_PROXY"] == environment["no_proxy"] == "localhost,127.0.0.1,::1"
    assert "NO_PROXY" not in spec().environment


OTHERS: dict[str, Any] = {name: other(rule) for name, rule in RULES.items()}
"""Of each setting, a value that is not its default."""


def test_every_setting_of_an_agent_reaches_its_worker() -> None:
    passed = spec(**OTHERS)
    assert settings_of(passed) == OTHERS
    assert all(OTHERS[field.name] != field.default for field in fields(AgentSettings))
    assert WorkerSpec.from_json(passed.to_json()) == passed
    assert settings_of(spec()) == settings_of(AgentSettings())


def test_a_policy_has_of_the_settings_those_that_it_names() -> None:
    agent = Agent(
        name="a", module=AgentSource("module", "m"), port=9000, title="A", description="An agent", **OTHERS
    )
    assert asdict(policy_of(agent)) == {field.name: OTHERS[field.name] for field in fields(Policy)}
    assert settings_of(AgentSettings()).items() >= asdict(Policy()).items(), "the same defaults"


def test_the_key_of_a_start_is_shown_nowhere() -> None:
    passed = replace(spec(), key="k" * 43)
    assert WorkerSpec.from_json(passed.to_json()).key == "k" * 43
    assert "kkkk" not in repr(passed)
    assert spec().key is None


def test_the_token_of_a_start_is_shown_nowhere() -> None:
    passed = replace(spec(), token="plls_agent_x", gateway_urls=("http://localhost:24199",))
    read = WorkerSpec.from_json(passed.to_json())
    assert (read.token, read.gateway_urls) == ("plls_agent_x", ("http://localhost:24199",))
    assert "plls" not in repr(passed)
    assert "plls" not in str(passed.environment)
    assert (spec().token, spec().gateway_urls) == (None, ())


def test_the_siblings_key_is_for_agents_of_the_files_alone_and_shown_nowhere() -> None:
    passed = replace(spec(), siblings_key="k" * 43)
    read = WorkerSpec.from_json(passed.to_json())
    assert (read.siblings_key, read.sibling_urls) == (
        "k" * 43,
        ("http://127.0.0.1:9000", "http://localhost:9000"),
    )
    assert "kkkk" not in repr(passed)
    declared = spec(definition=AgentDefinition(instruction=""))
    assert declared.sibling_urls == ()
    assert not read.is_behind


def test_every_start_has_its_key_and_token_until_its_process_is_gone() -> None:
    keys = StartKeys()
    first, second = WorkerId("a", 1), WorkerId("a", 2)
    one, two = keys.make(first, with_token=True), keys.make(second, with_token=True)
    assert one.token is not None
    assert two.token is not None
    assert is_token(one.token)
    assert keys.tokens() == {
        "a": [
            WorkerToken(generation=1, digest=token_digest(one.token)),
            WorkerToken(generation=2, digest=token_digest(two.token)),
        ]
    }
    assert (keys.key(first), keys.key(second)) == (one.key, two.key)
    keys.process_gone(first)
    keys.process_gone(first)
    assert keys.key(first) is None
    assert [token.generation for token in keys.tokens()["a"]] == [2]
    assert keys.make(WorkerId("b", 1), with_token=False).token is None
    assert list(keys.tokens()) == ["a"]


@pytest.mark.parametrize(
    ("bind", "host", "url", "urls"),
    [
        (
            "127.0.0.1",
            "localhost",
            "http://localhost:1",
            {"http://localhost:1", "http://127.0.0.1:1"},
        ),
        (
            "0.0.0.0",
            "x.example.com",
            "https://x.example.com",
            {"https://x.example.com", "http://localhost:1", "http://127.0.0.1:1", "http://x.example.com:1"},
        ),
        ("192.0.2.7", "x", "https://x", {"https://x", "http://192.0.2.7:1", "http://x:1"}),
    ],
)
def test_the_urls_of_a_gateway(bind: str, host: str, url: str, urls: set[str]) -> None:
    assert set(gateway_urls(GatewaySettings(port=1, bind=bind, public_url=url), host)) == urls
