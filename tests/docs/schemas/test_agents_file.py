"""The JSON schema of agents.yaml accepts what Pallas accepts, and refuses what an editor can see."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pallas_common.problems import ConfigurationError
from pallas_common.protocol.agent.settings import RULES, Choice, Seconds, Size, Truth, WholeNumber
from pallas_registry.deployment.agent_entry import Look
from pallas_registry.deployment.agents_file import parse_deployment
from support.repository import ROOT

FILE = ROOT / "registry" / "pallas_registry" / "deployment" / "agents.schema.json"
SCHEMA = json.loads(FILE.read_text())
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)

GOOD: dict[str, Any] = {"name": "demo", "agents": {"one": {"module": "agents.one", "port": 24201}}}


def pallas_accepts(document: object) -> bool:
    data = yaml.safe_dump(document, allow_unicode=True).encode()
    try:
        parse_deployment(data, Path("agents.yaml"), Look(lambda _: True, lambda _: None))
    except ConfigurationError:
        return False
    return True


def test_it_is_a_schema_and_printed_by_the_command() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    printed = subprocess.run(
        [sys.executable, "-m", "pallas", "schema"], capture_output=True, text=True, timeout=60, check=True
    )
    assert printed.stdout == FILE.read_text()


def test_every_key_says_what_it_is_for() -> None:
    definitions = SCHEMA["definitions"]
    tables = (SCHEMA["properties"], definitions["agent"]["properties"], definitions["settings"]["properties"])
    assert all(len(one["description"]) > 15 for table in tables for one in table.values())
    assert list(definitions["settings"]["properties"]) == list(RULES)


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("examples/**/agents.yaml")), ids=lambda path: path.parent.name
)
def test_the_examples_are_accepted(path: Path) -> None:
    VALIDATOR.validate(yaml.safe_load(path.read_text()))


def values() -> st.SearchStrategy[dict[str, object]]:
    """Settings that an agent may say, with values that may be right."""
    of = {}
    for name, rule in RULES.items():
        match rule:
            case WholeNumber(minimum):
                of[name] = st.integers(minimum - 1, minimum + 2)
            case Seconds(minimum):
                of[name] = st.sampled_from([minimum, minimum / 2, minimum + 0.5, 60, 0])
            case Choice(words):
                of[name] = st.sampled_from([*words, "sometimes"])
            case Truth():
                of[name] = st.sampled_from([True, False, "true", 1])
            case Size(minimum):
                sizes = [minimum, minimum - 1, "none", "512MiB", "2 GB", "1.5gib", "512M", "much"]
                of[name] = st.sampled_from(sizes)
    return st.fixed_dictionaries({}, optional=of)


AGENTS = st.builds(
    dict.__or__,
    st.fixed_dictionaries(
        {"module": st.sampled_from(["agents.one", "one:app"]), "port": st.sampled_from([1, 24201, 65535])},
        optional={
            "title": st.sampled_from(["One", "", "x" * 101]),
            "description": st.sampled_from(["does one thing", 5]),
            "icon": st.just("https://example.com/icon.svg"),
            "python": st.just("../venv/bin/python"),
            "env": st.dictionaries(st.sampled_from(["A", "_b", "1x"]), st.sampled_from(["", "v", 1, True])),
        },
    ),
    values(),
)


@given(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["demo", "My project"]), "agents": st.fixed_dictionaries({"one": AGENTS})},
        optional={
            "version": st.sampled_from(["1.0.0", "2.1"]),
            "host": st.sampled_from(["localhost", "agents.example.com", "::1"]),
            "hosts": st.lists(st.sampled_from(["agents.lan", "10.0.0.1"]), max_size=2),
            "namespace": st.sampled_from(["com.example", "a/b"]),
            "registry_port": st.sampled_from([24200, 0]),
            "bind": st.sampled_from(["0.0.0.0", "::"]),
            "max_surge": st.integers(0, 2),
            "preload": st.lists(st.sampled_from(["json", "my_package.models", "a-b", "a.py"]), max_size=2),
            "defaults": values(),
        },
    )
)
def test_whatever_pallas_accepts_is_accepted(document: dict[str, Any]) -> None:
    if pallas_accepts(document):
        VALIDATOR.validate(document)


@pytest.mark.parametrize(
    "change",
    [
        {"nmae": "demo"},
        {"name": 5},
        {"registry_port": 70000},
        {"agents": {"send_message": GOOD["agents"]["one"]}},
        {"agents": {"1st": GOOD["agents"]["one"]}},
        {"agents": {"one": {"port": 24201}}},
        {"agents": {"one": {"module": "agents.one"}}},
        {"agents": {"one": {**GOOD["agents"]["one"], "card": "cards/one.md"}}},
        {"agents": {"one": {**GOOD["agents"]["one"], "restart": "sometimes"}}},
        {"agents": {"one": {**GOOD["agents"]["one"], "memory_limit": "much"}}},
        {"agents": {"one": {**GOOD["agents"]["one"], "depends_on": "two"}}},
        {"defaults": {"port": 24201}},
    ],
    ids=str,
)
def test_what_an_editor_can_see_is_refused_by_both(change: dict[str, Any]) -> None:
    assert VALIDATOR.is_valid(GOOD)
    assert not VALIDATOR.is_valid(GOOD | change)
    assert not pallas_accepts(GOOD | change)
