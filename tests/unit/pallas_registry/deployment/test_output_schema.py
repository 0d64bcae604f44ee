"""`output_schema:` of an agent: inline or in a file, and where its faults are said."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pallas_common.problems import ConfigurationError
from pallas_registry.deployment.agents_file import read_deployment

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "name: demo\nagents:\n  jarvis:\n    module: agents.jarvis\n    port: 8201\n"
SCHEMA = {"type": "object", "properties": {"a": {"enum": ["yes", 1, None, True, 1.5]}}, "required": ["a"]}
IN_YAML = "type: object\nproperties: {a: {enum: ['yes', 1, null, true, 1.5]}}\nrequired: [a]\n"
IN_JSON = '{"type": "object",\t"properties": {"a": {"enum": ["yes", 1, null, true, 1.5]}}, "required": ["a"]}'


def said(folder: Path, value: str) -> list[str]:
    """What is wrong with a file that says so of the key; the key is on line 6."""
    file = folder / "agents.yaml"
    file.write_text(f"{HEAD}    output_schema: {value}\n")
    with pytest.raises(ConfigurationError) as error:
        read_deployment(file)
    return [str(problem).removeprefix(f"{file}:") for problem in error.value.problems]


@pytest.mark.parametrize(
    ("value", "name", "content"),
    [
        (f"\n      {IN_YAML.rstrip().replace('\n', '\n      ')}", None, ""),
        (IN_JSON.replace("\t", " "), None, ""),
        ("schemas/answer.json", "schemas/answer.json", IN_JSON),
        ("schemas/answer.yaml", "schemas/answer.yaml", IN_YAML),
    ],
)
def test_it_is_read_from_its_place_or_from_a_file(
    tmp_path: Path, value: str, name: str | None, content: str
) -> None:
    if name is not None:
        (tmp_path / "schemas").mkdir()
        (tmp_path / name).write_text(content)
    file = tmp_path / "agents.yaml"
    file.write_text(f"{HEAD}    output_schema: {value}\n")
    assert read_deployment(file).agents["jarvis"].output_schema == SCHEMA


def test_there_is_none_unless_it_is_said(tmp_path: Path) -> None:
    file = tmp_path / "agents.yaml"
    file.write_text(HEAD)
    assert read_deployment(file).agents["jarvis"].output_schema is None


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (
            "\n      items:\n        $ref: http://example.org/",
            "8: agents.jarvis.output_schema.items.$ref: 'http://example.org/' leads out of the schema; refer to",
        ),
        (
            "\n      type: strin",
            '7: agents.jarvis.output_schema.type: "strin" is no type; use array, boolean, ',
        ),
        (
            "\n      type: [null, strin]",
            '7: agents.jarvis.output_schema.type: [null, "strin"] is no type; use ',
        ),
        (
            "\n      minimum: '3'",
            '7: agents.jarvis.output_schema.minimum: is not JSON Schema: "3" is not of type "number"; mend it',
        ),
        (
            "\n      dependentRequired: {type: 5}",
            "7: agents.jarvis.output_schema.dependentRequired.type: is not JSON Schema: 5 is not of type",
        ),
        (
            "\n      const: 2026-01-01",
            "7: agents.jarvis.output_schema.const: is a date, which JSON does not have",
        ),
        (
            "\n      const: no",
            "7: agents.jarvis.output_schema.const: 'no' is a truth value in YAML; put it in quotes",
        ),
        ("\n      const: 1\n      const: 2", "8: agents.jarvis.output_schema.const: is given twice"),
        ("\n      1: {}", "7: agents.jarvis.output_schema: the key '1' is not text"),
        ("\n      const: .nan", "7: agents.jarvis.output_schema.const: is a number that JSON does not have"),
        ("[]", "6: agents.jarvis.output_schema: is a list, not text"),
        ("", "6: agents.jarvis.output_schema: is empty"),
        ("answer.txt", "6: agents.jarvis.output_schema: answer.txt: is no .json or .yaml file"),
        ("none.json", "6: agents.jarvis.output_schema: none.json: there is no such file"),
        ("bad.json", "6: agents.jarvis.output_schema: bad.json:2: not valid JSON: Expecting value"),
        ("twice.json", "6: agents.jarvis.output_schema: twice.json: the key 'type' is given twice"),
        ("bad.yaml", "6: agents.jarvis.output_schema: bad.yaml:2: "),
        ("list.yaml", "6: agents.jarvis.output_schema: list.yaml: is not a mapping"),
        ("empty.yaml", "6: agents.jarvis.output_schema: empty.yaml: is empty"),
        ("folder.json", "6: agents.jarvis.output_schema: folder.json: is a folder, not a file"),
        ("deep.json", "6: agents.jarvis.output_schema: deep.json: is nested"),
        (
            "ref.json",
            "6: agents.jarvis.output_schema: ref.json: /items/$ref: 'other.json' leads out of the schema",
        ),
    ],
)
def test_a_fault_is_said_with_its_place(tmp_path: Path, value: str, problem: str) -> None:
    for name, content in {
        "bad.json": '{"type":\n }',
        "twice.json": '{"type": "object", "type": "array"}',
        "bad.yaml": "type: object\ntype: array\n",
        "list.yaml": "- type\n",
        "empty.yaml": "",
        "deep.json": '{"not":' * 50_000,
        "ref.json": '{"items": {"$ref": "other.json"}}',
    }.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "folder.json").mkdir()
    (found, *_) = said(tmp_path, value)
    assert found.startswith(problem)
