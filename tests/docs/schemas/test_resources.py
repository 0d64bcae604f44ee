"""The JSON schema of resources accepts what Pallas accepts, and refuses what an editor can see."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import jsonschema
import jsonschema_rs
import pytest

from pallas_registry.resources.documents import read_resources
from support.data.resource_specs import FREE, SPECS, WRONG, at, places
from support.data.resource_texts import document, text_of
from support.repository import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE = ROOT / "registry" / "pallas_registry" / "resources" / "resources.schema.json"
SCHEMA = json.loads(FILE.read_text())
VALIDATOR = jsonschema_rs.Draft7Validator(SCHEMA)


def variants() -> Iterator[dict[str, Any]]:
    """Resources of every kind, each with one value changed or taken away."""
    for kind, spec in SPECS:
        yield document(kind, "x", spec)
        for path in places(spec):
            for name, wrong in WRONG.items():
                changed = copy.deepcopy({"spec": spec})
                at(changed, ("spec", *path)[:-1])[("spec", *path)[-1]] = wrong
                if name not in ("deep", "huge"):
                    yield document(kind, "x", changed["spec"])
            if path:
                changed = copy.deepcopy(spec)
                del at(changed, path[:-1])[path[-1]]
                yield document(kind, "x", changed)


@pytest.fixture(scope="module")
def judged() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The variants that Pallas accepts, and those that it refuses."""
    found: tuple[list[dict[str, Any]], list[dict[str, Any]]] = ([], [])
    for each in variants():
        found[bool(read_resources(text_of(each), "f").problems)].append(each)
    return found


type Judged = tuple[list[dict[str, Any]], list[dict[str, Any]]]


def test_it_is_a_schema_and_printed_by_the_command() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    printed = subprocess.run(
        [sys.executable, "-m", "pallas", "schema", "resources"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert printed.stdout == FILE.read_text()


def test_whatever_pallas_accepts_is_accepted(judged: Judged) -> None:
    accepted, _ = judged
    assert len(accepted) > 50
    for each in accepted:
        VALIDATOR.validate(each)


def test_most_of_what_pallas_refuses_is_refused(judged: Judged) -> None:
    _, refused = judged
    missed = [each for each in refused if VALIDATOR.is_valid(each)]
    assert len(missed) < len(refused) / 10


LLM = {"type": "openai", "model": "m"}


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {**document("llm", "q", LLM), "apiVersion": "v2"},
        document("lm", "q", LLM),
        document("llm", "a__b", LLM),
        document("agent", "a.b", {}),
        document("server", "agent-x", {"url": "http://h/"}),
        document("llm", "q", {**LLM, "type": "opnai"}),
        document("llm", "q", {"type": "openai"}),
        document("agent", "a", {"llm": "q", "model": "m"}),
        document("agent", "a", {"tols": []}),
        document("agent", "a", {"run": {"module": "m"}}),
        document("agent", "a", {"run": {"restart": "sometimes"}}),
        document("agent", "a", {"defaultParams": {"tempratur": 1}}),
        document("secret", "k", {"data": {"A B": "x"}}),
        document("server", "s", {"url": "http://h/", "command": "x"}),
        document("project", "p", {"prompts": [{"name": "a"}]}),
        document("project", "p", {}, nmae="x"),
    ],
)
def test_an_editor_sees_it(wrong: dict[str, Any]) -> None:
    assert read_resources(text_of(wrong), "f").problems
    assert not VALIDATOR.is_valid(wrong)


def test_what_has_rules_of_others_is_left_to_them() -> None:
    spec = SCHEMA["definitions"]["agent"]["properties"]
    assert {name for name in FREE if spec.get(name, {}) == {"type": "object"}} == {"extras", "outputSchema"}
