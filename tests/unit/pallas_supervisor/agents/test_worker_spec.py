"""What a worker is told, from a deployment: nothing of the agent's entry gets lost on the way."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from pallas_common.logs.levels import Levels
from pallas_common.protocol.agent.settings import RULES, AgentSettings, Choice, Rule, Truth, settings_of
from pallas_common.protocol.agent.source import AgentSource
from pallas_common.protocol.spec import WorkerSpec
from pallas_registry.deployment.model import Agent, Deployment, ModelSettings
from pallas_registry.resources.assembly import assemble
from pallas_registry.resources.files import KeptResources
from pallas_registry.source import Configuration
from pallas_supervisor.agents.worker_spec import policy_of, worker_spec
from pallas_supervisor.lifecycle.states import Policy


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
