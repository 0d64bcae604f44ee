"""`docs/configuration.md` names every key and variable, with the default that it has."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields

import pytest
import yaml

from pallas_common.protocol.agent.images import MAX_IMAGE_BYTES, MAX_IMAGES, MIME_TYPES
from pallas_common.protocol.agent.llm import ModelCapabilities
from pallas_common.protocol.agent.settings import effects
from pallas_common.protocol.gateway import GatewaySettings, Limits
from pallas_registry.deployment import agent_entry, agents_file
from pallas_registry.deployment.agents_file import read_deployment
from pallas_registry.deployment.model import Agent, Deployment
from pallas_registry.fastagent_files import models as model_settings
from pallas_supervisor.reload.plan import ACTIONS
from support.data.agents_text import parse
from support.repository import ROOT

PAGE = (ROOT / "docs" / "configuration.md").read_text()
ROWS = {
    cells[0].strip(): [cell.strip() for cell in cells[1:]]
    for cells in (line.strip("|").split("|") for line in PAGE.splitlines() if line.startswith("| `"))
}
ON_RELOAD = {"live": "live", "respawn": "new process", "rebind": "new socket"}


def default(row: str) -> str:
    return ROWS[f"`{row}`"][0]


@pytest.mark.parametrize("key", agents_file.KEYS)
def test_the_page_names_every_key_of_the_file(key: str) -> None:
    assert f"`{key}`" in ROWS


@pytest.mark.parametrize("key", agent_entry.KEYS)
def test_the_page_names_every_field_of_an_agent_and_what_a_reload_does(key: str) -> None:
    assert ROWS[f"`{key}`"][2] == ON_RELOAD[ACTIONS[key]]


def test_the_defaults_are_those_of_the_code() -> None:
    for field in fields(Agent):
        if isinstance(field.default, str | float | int):
            shown = f"{field.default:g}" if isinstance(field.default, float) else str(field.default)
            if isinstance(field.default, bool):
                shown = shown.lower()
            assert default(field.name) == f"`{shown}`", field.name
        elif field.default is MISSING and field.default_factory is MISSING and field.name == "port":
            assert default(field.name) == "required"
    said = {field.name: field.default for field in fields(Deployment)}
    assert default("version") == f'`"{said["version"]}"`'
    assert (default("host"), default("registry_port")) == (f"`{said['host']}`", f"`{said['registry_port']}`")
    capabilities = ModelCapabilities()
    for name in model_settings._CAPABILITIES:
        value = getattr(capabilities, name)
        assert default(f"model_capabilities.{name}") == f"`{str(value).lower()}`"


def test_the_defaults_of_the_gateway_are_those_of_the_code() -> None:
    for prefix, owner in (("gateway", GatewaySettings), ("gateway.limits", Limits)):
        for field in fields(owner):
            shown = default(f"{prefix}.{field.name}")
            if isinstance(field.default, str | float | int):
                plain = f"{field.default:g}" if isinstance(field.default, float) else str(field.default)
                assert shown == f"`{plain.lower()}`", field.name


def test_a_change_that_needs_a_restart_is_named() -> None:
    named = re.findall(r"A change of `(\w+)` needs a restart", PAGE)
    assert [name for name, effect in effects(fields(GatewaySettings)).items() if effect == "fixed"] == named


def test_what_defaults_may_say_is_the_second_table() -> None:
    table = PAGE.split("below `defaults:`, once for all agents:")[1].split("```")[0]
    assert re.findall(r"^\| `(\w+)`", table, re.MULTILINE) == list(agent_entry.SHARED_KEYS)


def test_the_page_names_every_variable() -> None:
    packages = ("registry", "supervisor", "worker")
    sources = "".join(path.read_text() for package in packages for path in (ROOT / package).rglob("*.py"))
    ours = set(re.findall(r'"(PALLAS_[A-Z_]+)"', sources)) - {
        "PALLAS_WORKER",
        "PALLAS_FLEET",
    }  # how workers are recognised
    assert ours
    named = {name for row in ROWS for name in re.findall(r"`([A-Z_]+)`", row)}
    assert ours <= named


def test_the_example_is_right() -> None:
    example, of_gateway = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    deployment = parse(example)
    assert deployment.agents["jarvis"].max_queue == 16
    assert deployment.agents["research"].max_concurrency == 8
    gateway = parse(of_gateway).gateway
    assert gateway is not None
    assert gateway.oidc is not None
    assert gateway.oidc.groups == {"operators": ("*",), "developers": ("view:agents", "run:agents")}
    quickstart = ROOT / "examples" / "quickstart" / "agents.yaml"
    assert read_deployment(quickstart).agents.keys() == (
        yaml.safe_load(quickstart.read_text())["agents"].keys()
    )


def test_the_bounds_of_images_are_those_of_the_code() -> None:
    assert f"at most {MAX_IMAGES}, of at most {MAX_IMAGE_BYTES // 1024**2} MiB each" in PAGE
    assert all(f"`{type_}`" in PAGE for type_ in MIME_TYPES)
