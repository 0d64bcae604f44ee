"""What providers are told of a schema: the part that all of them know, or nothing."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from pallas_worker.fastagent.native_schema import is_recursive, strict_form

CLOSED: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}}


def of(schema: Any) -> Any:
    """The form of a schema of one property."""
    form = strict_form({"type": "object", "properties": {"a": schema}})
    return None if form is None else form["properties"]["a"]


@pytest.mark.parametrize(
    ("schema", "form"),
    [
        ({"type": "string", "minLength": 2, "title": "A", "default": "x"}, {"type": "string"}),
        ({"type": "string", "format": "date"}, {"type": "string", "format": "date"}),
        ({"type": "string", "format": "uri-template"}, {"type": "string"}),
        ({"enum": ["a", "b"]}, {"enum": ["a", "b"], "type": "string"}),
        ({"const": True}, {"const": True, "type": "boolean"}),
        ({"type": ["integer", "null"]}, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        ({"oneOf": [{"type": "null"}]}, {"anyOf": [{"type": "null"}]}),
        ({"type": "array", "items": {"type": "null"}}, {"type": "array", "items": {"type": "null"}}),
        (CLOSED, {**CLOSED, "additionalProperties": False}),
        ({"$ref": "#", "description": "the same"}, {"$ref": "#"}),
    ],
)
def test_what_only_narrows_is_left_out(schema: Any, form: Any) -> None:
    assert of(schema) == form


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {},
        {"type": "object"},
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {**CLOSED, "additionalProperties": True},
        {**CLOSED, "required": ["b"]},
        {**CLOSED, "patternProperties": {"x": {}}},
        {"type": "array"},
        {"type": "array", "prefixItems": [{"type": "null"}], "items": {"type": "null"}},
        {"allOf": [CLOSED]},
        {"not": {"type": "null"}},
        {"enum": ["a", 1]},
        {"enum": [{"a": 1}]},
        {"$ref": "#/properties/b"},
    ],
)
def test_what_shapes_an_answer_and_cannot_be_said_leaves_nothing(schema: Any) -> None:
    assert of(schema) is None


@pytest.mark.parametrize(
    "root", [{"type": "array", "items": CLOSED}, {"anyOf": [CLOSED]}, {**CLOSED, "oneOf": []}]
)
def test_at_the_root_there_is_an_object(root: Any) -> None:
    assert strict_form(root) is None


def test_whatever_fits_the_form_of_a_schema_without_narrowing_words_fits_the_schema() -> None:
    schema = {**CLOSED, "required": ["a"], "title": "A", "description": "Of a."}
    form = strict_form(schema)
    assert form is not None
    for value in ({"a": 1}, {}, {"a": "x"}):
        assert Draft202012Validator(form).is_valid(value) is Draft202012Validator(schema).is_valid(value)


@pytest.mark.parametrize(
    ("uses", "recursive"),
    [({"A": "B", "B": "C", "C": None}, False), ({"A": "B", "B": "A"}, True), ({"A": None, "B": "B"}, True)],
)
def test_recursion_is_seen_through_references(uses: dict[str, str | None], recursive: bool) -> None:
    def part(target: str | None) -> dict[str, Any]:
        return (
            {"type": "null"} if target is None else {"type": "array", "items": {"$ref": f"#/$defs/{target}"}}
        )

    form = strict_form(
        {
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/A"}},
            "$defs": {name: part(target) for name, target in uses.items()},
        }
    )
    assert form is not None
    assert is_recursive(form) is recursive
