"""Answers: taken out of a model's text, held to a schema, and what is said of those that do not fit."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pallas_common.protocol.agent.output_schema import limits
from pallas_common.protocol.agent.output_schema.errors import MisfitError
from pallas_common.protocol.agent.output_schema.schema import ANY_OBJECT, OutputSchema

PET: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2},
        "tags": {"type": "array", "items": {"type": "string"}},
        "age": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "is": {"oneOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}]},
        "born": {"type": "string", "format": "date"},
    },
    "required": ["name"],
    "additionalProperties": False,
    "$defs": {
        "Cat": {"type": "object", "properties": {"kind": {"const": "cat"}, "lives": {"type": "integer"}}},
        "Dog": {"type": "object", "properties": {"kind": {"const": "dog"}, "tricks": {"type": "integer"}}},
    },
}


def said_of(schema: Any, text: str) -> str:
    with pytest.raises(MisfitError) as error:
        OutputSchema(schema).check(text)
    return str(error.value)


@pytest.mark.parametrize(
    "text", ['{"a": 1}', ' \n{"a": 1}\n', '```json\n{"a": 1}\n```', '```\n{"a": 1}\n```\n']
)
def test_the_answer_is_the_json_alone(text: str) -> None:
    answer = OutputSchema(ANY_OBJECT).check(text)
    assert (answer.text, answer.value) == ('{"a": 1}', {"a": 1})


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({}, '- the answer: "name" is a required property'),
        ({"name": "x"}, "- /name: is shorter than 2 characters"),
        ({"name": "Rex", "tags": ["a", 5]}, '- /tags/1: is not of type "string"'),
        ({"name": "Rex", "colour": "red"}, "- /colour: is not a property that is known"),
        ({"name": "Rex", "age": "old"}, "- /age: fits none of the 2 alternatives (integer, null)"),
        ({"name": "Rex", "is": {"kind": "cat", "lives": "nine"}}, '- /is/lives: is not of type "integer"'),
        ({"name": "Rex", "is": {"kind": "cow"}}, "- /is: fits none of the 2 alternatives (object, object)"),
        ({"name": "Rex", "is": {}}, "- /is: fits 2 of the alternatives, and has to fit one"),
        ({"name": "Rex", "born": "yesterday"}, '- /born: is not a "date"'),
        ([], '- the answer: is not of type "object"'),
    ],
)
def test_what_does_not_fit_is_said_with_its_place(value: Any, said: str) -> None:
    assert said_of(PET, json.dumps(value)) == said


def test_an_answer_is_not_repeated_in_what_is_said_of_it() -> None:
    secret = "s3cret" * 20
    said = said_of(PET, json.dumps({"name": secret, "tags": secret, "age": [secret], "born": secret}))
    assert secret not in said
    assert said.count("\n") == 2


def test_only_so_many_are_named() -> None:
    said = said_of({"type": "array", "items": {"type": "integer"}}, json.dumps(["x"] * 1000))
    assert said.count("\n") == limits.MOST_MISFITS - 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty, and has to be JSON"),
        ("It is warm.", "is not JSON: Expecting value at line 1, column 1"),
        ('Here: {"a": 1}', "is not JSON: Expecting value at line 1, column 1"),
        ('{"a": NaN}', "has a number that JSON does not have, or one of too many digits"),
        ('{"a": 1e999}', "has a number that JSON does not have, or one of too many digits"),
        ('{"a": ' + "9" * 5000 + "}", "has a number that JSON does not have, or one of too many digits"),
        ('{"a": "\\ud800"}', "has an escape that stands for half a character"),
        ('{"a":' * 40_000, "is nested more than 64 deep"),
        ('{"a":' * 70 + "1" + "}" * 70, "is nested more than 64 deep"),
        ("[" + "1," * limits.MOST_VALUES + "1]", f"has more than {limits.MOST_VALUES} values"),
        ('{"a": "' + "x" * limits.LONGEST_ANSWER + '"}', f"has more than {limits.LONGEST_ANSWER} characters"),
    ],
)
def test_what_is_no_json_is_said_so(text: str, said: str) -> None:
    assert said_of(ANY_OBJECT, text) == f"- the answer: {said}"


def test_alternatives_within_alternatives_are_explained_without_following_them_all() -> None:
    either = {"type": "array", "items": {"$ref": "#"}}
    said = said_of({"anyOf": [{"type": "integer"}, either, either]}, "[" * 60 + '"bad"' + "]" * 60)
    assert said == "- the answer: fits none of the 3 alternatives (integer, array, array)"


def test_work_is_bounded_by_schema_and_answer_together() -> None:
    many = {"type": "array", "items": {"allOf": [{"minimum": n} for n in range(500)]}}
    assert said_of(many, json.dumps([1000] * 20_000)) == (
        "- the answer: is too large to be checked by a schema of this size"
    )
    OutputSchema({"type": "array", "items": {"type": "integer"}}).check(json.dumps([1000] * 20_000))


@pytest.mark.parametrize(
    "dialect", ["https://json-schema.org/draft/2019-09/schema", "http://json-schema.org/draft-07/schema#"]
)
def test_older_dialects_have_their_own_words(dialect: str) -> None:
    schema = {"$schema": dialect, "items": [{"type": "integer"}], "additionalItems": False}
    assert OutputSchema(schema).check("[1]").value == [1]
    assert said_of(schema, '["x"]') == '- /0: is not of type "integer"'
