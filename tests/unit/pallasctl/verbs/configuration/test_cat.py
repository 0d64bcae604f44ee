"""`pallasctl cat`: a valid agents.yaml that says the same, with comments, and without secrets."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from pallas_common.logs.levels import Levels
from pallas_common.secrets.values import KnownSecrets
from pallas_registry.deployment.agents_file import read_deployment
from pallas_registry.deployment.model import ModelSettings
from pallas_registry.resources.assembly import assemble
from pallas_registry.resources.files import KeptResources
from pallas_registry.source import Configuration
from pallas_supervisor.agents.description.configuration import configuration_document
from pallas_supervisor.reload.drift import Drift
from pallas_supervisor.reload.source import Source

if TYPE_CHECKING:
    from pathlib import Path

    from fakes.control_server import FakeControl
    from pallas_registry.deployment.model import Deployment

FILE = """\
name: demo
version: "1.0"
hosts: [one.example.com, "::1"]
defaults:
  stop_timeout: 2.5
  memory_limit: 512MiB
agents:
  jarvis:
    module: agents.jarvis
    port: 8201
    title: "yes"
    description: 'a: #b, [c] "d" é'
    depends_on: [research]
    memory_limit: none
    env:
      MODE: "on"
      NUMBER: 010
      N: "multi\\nline"
  research:
    module: agents.research
    port: 8202
    start_timeout: 0.125
    overrides: true
    models: [openai.gpt-4.1, "responses.gpt-5?reasoning=low"]
    output_schema:
      type: object
      properties:
        city: {type: string, description: "a: b, [c] # d", pattern: "^[A-Z]{1,9}$"}
      required: [city]
"""
GATEWAY = """\
gateway:
  port: 8299
  store: postgresql://pallas@db.example.com/pallas
  memory_limit: 512MiB
  limits: {tool_timeout: 2.5}
  threads: {keep: 90d}
  oidc:
    issuer: https://login.example.com
    audience: "yes"
    groups: {operators: ["*"], "a: b": [run:agents]}
"""
SECRET = """\
    env:
      MODE: fast
      API_KEY: hunter22hunter22
      PROXY: http://me:hunter22hunter22@proxy
  library:
    module: agents.library
    port: 8203
    env: {LIBRARY_TOKEN: hunter22hunter22}
"""


def taken(directory: Path, text: str, name: str = "agents.yaml") -> tuple[Deployment, dict[str, Any]]:
    """What the file says, and the document of a supervisor that has taken it over."""
    path = directory / name
    path.write_text(text)
    deployment = read_deployment(path)
    levels = Levels(pallas="INFO", root="INFO")
    configuration = Configuration(
        deployment=deployment,
        assembly=assemble(deployment, KeptResources()),
        settings=ModelSettings(),
        levels=levels,
        dotenv={},
    )
    drift = Drift(Source(path=path, directory=directory), configuration)
    return deployment, json.loads(json.dumps(configuration_document(drift, KnownSecrets())))


def printed(fake: FakeControl, document: dict[str, Any], *arguments: str) -> str:
    fake.answer("/v1/configuration", document)
    result = fake.run("cat", *arguments)
    assert result.exit_code == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("text", [FILE, FILE + GATEWAY])
def test_what_is_printed_is_the_same_deployment(fake: FakeControl, tmp_path: Path, text: str) -> None:
    deployment, document = taken(tmp_path, text)
    again, _ = taken(tmp_path, printed(fake, document), "again.yaml")
    assert replace(again, path=deployment.path) == deployment


def test_each_value_says_where_it_comes_from(fake: FakeControl, tmp_path: Path) -> None:
    _, document = taken(tmp_path, FILE)
    lines = {
        text.strip(): comment
        for text, _, comment in (line.rpartition("  # ") for line in printed(fake, document).splitlines())
    }
    assert lines["name: demo"] == "agents.yaml:1"
    assert lines["max_surge: 1"] == "default"
    assert lines["jarvis:"] == "agents.yaml:8"
    assert lines["memory_limit: none"] == "agents.yaml:14"
    assert lines["memory_limit: 536870912"] == "agents.yaml:6 (defaults)"
    assert lines["stop_timeout: 2.5"] == "agents.yaml:5 (defaults)"
    assert lines["start_timeout: 0.125"] == "agents.yaml:22"


def test_secrets_are_left_out_and_the_rest_is_valid(fake: FakeControl, tmp_path: Path) -> None:
    deployment, document = taken(tmp_path, FILE + SECRET)
    text = printed(fake, document)
    assert "hunter22" not in text
    assert "# Left out: 3 variables that may be secret." in text
    assert "# API_KEY: (hidden)" in text
    again, _ = taken(tmp_path, text, "again.yaml")
    assert again.agents["research"].env == {"MODE": "fast"}
    assert again.agents["library"].env == {}
    assert (
        replace(again.agents["library"], env=deployment.agents["library"].env) == deployment.agents["library"]
    )


def test_the_secret_of_the_gateway_at_its_issuer_is_not_shown(fake: FakeControl, tmp_path: Path) -> None:
    client = "    client_id: pallas-web\n    client_secret: hunter22hunter22\n"
    deployment, document = taken(tmp_path, FILE + GATEWAY + client)
    assert "hunter22" not in json.dumps(document)
    again, _ = taken(tmp_path, printed(fake, document), "again.yaml")
    assert deployment.gateway is not None
    assert deployment.gateway.oidc is not None
    assert again.gateway == replace(
        deployment.gateway, oidc=replace(deployment.gateway.oidc, client_secret=None)
    )


def test_some_agents_alone(fake: FakeControl, tmp_path: Path) -> None:
    _, document = taken(tmp_path, FILE)
    text = printed(fake, document, "research")
    assert list(yaml.safe_load(text)) == ["agents"]
    assert list(yaml.safe_load(text)["agents"]) == ["research"]
    result = fake.run("cat", "reserch")
    assert result.exit_code == 2
    assert "did you mean 'research'?" in result.stderr


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"changed": ["agents.yaml"], "problems": 0}, "changed since in agents.yaml; `pallasctl reload`"),
        ({"changed": [".env"], "problems": 2}, ".env, changed since, with 2 problems; `pallasctl check`"),
    ],
)
def test_changed_files_are_told_first(
    fake: FakeControl, tmp_path: Path, files: dict[str, Any], said: str
) -> None:
    _, document = taken(tmp_path, FILE)
    text = printed(fake, {**document, "files": files})
    notes = [line for line in text.splitlines() if line.startswith("# ")]
    assert said in notes[1]


def test_json_is_the_document(fake: FakeControl, tmp_path: Path) -> None:
    _, document = taken(tmp_path, FILE)
    assert json.loads(printed(fake, document, "-o", "json")) == document
