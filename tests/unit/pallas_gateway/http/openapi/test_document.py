"""The OpenAPI document: it is one, by the schema of its makers, and says what there is."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from pallas_gateway.conversations.request import FIELDS
from pallas_gateway.http.openapi.document import openapi_document
from pallas_gateway.http.openapi.operations.operation import Answer, Operation
from pallas_gateway.http.openapi.operations.schemas import PLACES, SCHEMAS, TAGS
from pallas_gateway.http.openapi.operations.table import OPERATIONS
from support.repository import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = ROOT / "tests/support/data/openapi-3.1.json"
"""https://spec.openapis.org/oas/3.1/schema/2022-10-07"""
DOCUMENT = openapi_document(OPERATIONS)


def refs(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for each in value.values():
            yield from refs(each)
    elif isinstance(value, list):
        for each in value:
            yield from refs(each)


def schemas(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        if "schema" in value:
            yield value["schema"]
        for name, each in value.items():
            if name != "schema":
                yield from schemas(each)
    elif isinstance(value, list):
        for each in value:
            yield from schemas(each)


def test_it_is_a_document_of_openapi() -> None:
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(DOCUMENT)
    for schema in (*SCHEMAS.values(), *schemas(DOCUMENT["paths"])):
        jsonschema.Draft202012Validator.check_schema(schema)


def test_what_is_no_document_is_found_out() -> None:
    wrong = Operation(
        id="x", method="GET", path="/x", tag="agents", summary="x", grant="x", answers=(Answer(0, ""),)
    )
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(openapi_document([wrong]))


def test_all_that_it_refers_to_is_there_and_used() -> None:
    found = set(refs(DOCUMENT))
    for each in found:
        target: Any = DOCUMENT
        for part in each.removeprefix("#/").split("/"):
            target = target[part]
    unused = SCHEMAS.keys() - {each.rpartition("/")[2] for each in found}
    assert unused == {"Chunk"}, "no schema can refer to what is in the events of a stream"


def test_a_chat_has_the_fields_that_the_engine_reads() -> None:
    assert SCHEMAS["ChatBody"]["properties"].keys() == set(FIELDS)


def test_operations_have_names_places_and_tags_of_their_own() -> None:
    assert len({each.id for each in OPERATIONS}) == len(OPERATIONS)
    assert len({(each.method, each.path) for each in OPERATIONS}) == len(OPERATIONS)
    assert {name for each in OPERATIONS for name in each.places} == PLACES.keys()
    assert {each.tag for each in OPERATIONS} == TAGS.keys()
    for each in OPERATIONS:
        assert each.answers
        assert all(answer.status < 400 for answer in each.answers), each.id


def test_what_is_routed_is_in_the_table() -> None:
    """`routes_of` takes operations alone, so that no other way to a route may lead by it."""
    folder = ROOT / "gateway/pallas_gateway/http"
    routing = [
        str(path.relative_to(ROOT))
        for room in ("api", "completions")
        for path in Path(folder, room).glob("*.py")
        if re.search(r"(?<![\w.])(Route|Mount)\(", path.read_text())
    ]
    assert not routing
