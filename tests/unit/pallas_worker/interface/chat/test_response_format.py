"""`response_format`: what it may say, and what it says of an agent that has a schema of its own."""

from __future__ import annotations

from typing import Any

import pytest

from pallas_worker.interface.chat.response_format import FIELD, response_format
from pallas_worker.interface.errors import ArgumentError

OWN = {"type": "object", "properties": {"a": {"type": "integer"}}}


def asked(schema: Any = None, **more: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema or OWN, **more}}


@pytest.mark.parametrize("value", [None, {"type": "text"}])
@pytest.mark.parametrize("own", [None, OWN])
def test_text_leaves_it_to_the_agent(value: Any, own: Any) -> None:
    assert response_format({FIELD: value}, own) is None
    assert response_format({}, own) is None


def test_a_schema_is_what_the_answer_has_to_fit() -> None:
    found = response_format({FIELD: asked(strict=True, description="Of today.")}, None)
    assert found is not None
    assert found.name == "answer"
    assert found.definition == {"description": "Of today.", **OWN}


def test_a_schema_is_looked_through_once() -> None:
    body = {FIELD: asked({"type": "array"})}
    assert response_format(body, None) is response_format(body, None)


def test_any_object_will_do() -> None:
    found = response_format({FIELD: {"type": "json_object"}}, None)
    assert found is not None
    assert found.any_object


@pytest.mark.parametrize("value", [{"type": "json_object"}, asked(), asked(description="the same")])
def test_an_agent_with_a_schema_of_its_own_gives_what_that_one_does(value: Any) -> None:
    assert response_format({FIELD: value}, OWN) is None


@pytest.mark.parametrize(
    ("value", "own", "field"),
    [
        ("json", None, ""),
        ({}, None, ".type"),
        ({"type": 5}, None, ".type"),
        ({"type": "xml"}, None, ".type"),
        ({"type": "text", "json_schema": {}}, None, ".json_schema"),
        ({"type": "json_schema"}, None, ".json_schema"),
        (asked(nmae="x"), None, ".json_schema.nmae"),
        (asked(name=None), None, ".json_schema.name"),
        (asked(name="a b"), None, ".json_schema.name"),
        (asked(strict="yes"), None, ".json_schema.strict"),
        (asked(description=5), None, "description"),
        (asked("text"), None, ".json_schema.schema"),
        (asked({"$ref": "http://169.254.169.254/"}), None, ".json_schema.schema/$ref"),
        (asked({"items": {"pattern": "(?=a)"}}), None, ".json_schema.schema/items/pattern"),
        (asked({"type": "string"}), OWN, ".json_schema.schema"),
        ({"type": "json_object"}, {"type": "array"}, ""),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(value: Any, own: Any, field: str) -> None:
    with pytest.raises(ArgumentError) as error:
        response_format({FIELD: value}, own)
    assert error.value.field in (f"{FIELD}{field}", field)
