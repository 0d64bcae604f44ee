"""Schemas from outside: what is refused as it is read, and where; what everyday schemas may have."""

from __future__ import annotations

from datetime import date, datetime  # noqa: TC003 - read by pydantic
from enum import StrEnum
from typing import Annotated, Any, Literal
from uuid import UUID  # noqa: TC003 - the same

import pytest
from pydantic import AnyUrl, BaseModel, Field, TypeAdapter

from pallas_common.protocol.agent.output_schema import limits
from pallas_common.protocol.agent.output_schema.errors import SchemaError
from pallas_common.protocol.agent.output_schema.schema import OutputSchema

REMOTE = [
    "http://169.254.169.254/latest/meta-data",
    "https://example.org/schema.json#/definitions/a",
    "file:///etc/passwd",
    "//example.org/x",
    "other.json",
    "/other.json",
    "#anchor",
    "urn:uuid:ea5dba30-0a4f-4d8b-9d44-6a3d3f0f5c4e",
    "http://json-schema.org/draft-07/schema#",
]
BEYOND_LINEAR_TIME = [
    r"^(?=.*\d)(?=.*[a-z]).{8,}$",
    r"(?!a)b",
    r"(?<=a)b",
    r"(?<!a)b",
    r"^(a+)\1$",
    r"(?P<x>a)(?P=x)",
    r"(?>a+)b",
    r"((\w{1000}){1000}){1000}",
    r"(",
    "a" * (limits.LONGEST_PATTERN + 1),
]
EXPONENTIAL_ELSEWHERE = [
    r"^(a+)+$",
    r"^(a|a)*$",
    r"^(a|aa)+$",
    r"^([a-zA-Z]+)*$",
    r"^(([a-z])+.)+[A-Z]([a-z])+$",
    r"(x+x+)+y",
    r"^(\d+)*\.$",
    r"^\s*(\S+\s*)*;$",
]


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = Field(ge=0, le=9)


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: list[str] = []


class Node(BaseModel):
    label: str = Field(min_length=1, pattern=r"^\w+$")
    children: list[Node] = []
    parent: Node | None = Field(default=None, description="further up")


class Everything(BaseModel):
    """What people write."""

    name: str = Field(description="of the thing", examples=["chair"])
    colour: Colour = Colour.RED
    when: datetime
    day: date | None = None
    id: UUID
    link: AnyUrl | None = None
    weights: dict[str, float] = {}
    pair: tuple[int, str]
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    tree: Node
    anything: Any = None


def refused(schema: Any) -> SchemaError:
    with pytest.raises(SchemaError) as error:
        OutputSchema(schema)
    return error.value


@pytest.mark.parametrize("reference", REMOTE)
@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef", "$recursiveRef"])
def test_what_leads_out_of_the_schema_is_refused_with_its_place(reference: str, keyword: str) -> None:
    error = refused({"properties": {"a/b": {"items": {keyword: reference}}}})
    assert error.pointer == f"/properties/a~1b/items/{keyword}"


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"properties": {"a": {"$id": "http://example.org/"}}}, "/properties/a/$id"),
        ({"$defs": {"a": {"$anchor": "x"}}}, "/$defs/a/$anchor"),
        ({"$schema": "http://example.org/dialect"}, "/$schema"),
        ({"$schema": "http://json-schema.org/draft-04/schema#"}, "/$schema"),
        ({"$ref": "#/nowhere"}, "/$ref"),
        ({"anyOf": [{}, {"$ref": "#/anyOf/7"}]}, "/anyOf/1/$ref"),
        ({"$ref": 5}, "/$ref"),
        ({"properties": {"a": 3}}, "/properties/a"),
        ({"properties": {"a": {"type": "text"}}}, "/properties/a/type"),
        ({"minimum": "x"}, "/minimum"),
        ({"enum": list(range(limits.MOST_CHOICES + 1))}, "/enum"),
        ([], ""),
        ("text", ""),
        ({"const": float("nan")}, ""),
        ({1: {}}, ""),
        ({"title": "\ud800"}, ""),
        ({"description": "x" * limits.LONGEST_SCHEMA}, ""),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_place(schema: Any, pointer: str) -> None:
    assert refused(schema).pointer == pointer


@pytest.mark.parametrize("pattern", BEYOND_LINEAR_TIME)
def test_a_pattern_that_may_take_longer_than_its_text_is_refused(pattern: str) -> None:
    assert refused({"properties": {"a": {"pattern": pattern}}}).pointer == "/properties/a/pattern"
    by_name = refused({"patternProperties": {pattern: {}}})
    assert by_name.pointer.startswith("/patternProperties/")


@pytest.mark.parametrize("pattern", EXPONENTIAL_ELSEWHERE)
def test_a_pattern_that_holds_other_engines_is_linear_here(pattern: str) -> None:
    schema = OutputSchema({"type": "string", "pattern": pattern})
    with pytest.raises(ValueError, match=r"does not match|too large"):
        schema.check(f'"{"a" * 200_000}!"')


def test_loops_that_never_end_are_refused() -> None:
    around: dict[str, Any] = {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}
    for schema in (
        {"$ref": "#"},
        {"anyOf": [{"type": "integer"}, {"$ref": "#"}]},
        {"items": {"$ref": "#/$defs/a"}, "$defs": around},
        # first met below another value, from within the loop
        {"$ref": "#/$defs/a", "$defs": {**around, "a": {"items": {"$ref": "#/$defs/b"}, **around["a"]}}},
    ):
        assert "never ends" in str(refused(schema))


def test_recursion_that_consumes_its_value_is_none() -> None:
    tree = OutputSchema({"type": "object", "properties": {"below": {"items": {"$ref": "#"}}}})
    assert tree.check('{"below": [{"below": []}]}').value == {"below": [{"below": []}]}


@pytest.mark.parametrize("word", ["anyOf", "oneOf", "allOf"])
def test_schemas_that_unfold_without_end_are_refused(word: str) -> None:
    below = [{f"a{i}": {word: [{"items": {"$ref": f"#/$defs/a{i + 1}"}}] * 2}} for i in range(40)]
    named = {name: each for level in below for name, each in level.items()}
    error = refused({"$ref": "#/$defs/a0", "$defs": {**named, "a40": {"type": "integer"}}})
    assert "take too long" in error.message


def test_depth_and_number_are_bounded() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5_000):
        deep = {"not": deep}
    assert "deep" in refused(deep).message
    assert "schemas" in refused({"properties": {f"p{i}": {} for i in range(limits.MOST_SCHEMAS + 1)}}).message
    assert (
        "patterns"
        in refused({"allOf": [{"pattern": f"a{i}"} for i in range(limits.MOST_PATTERNS + 1)]}).message
    )
    chain = {f"a{i}": {"$ref": f"#/$defs/a{i + 1}"} for i in range(1_500)}
    assert refused({"$ref": "#/$defs/a0", "$defs": {**chain, "a1500": {}}})


@pytest.mark.parametrize("kind", [Cat, Dog, Node, Everything, list[Everything], Cat | Dog, dict[str, Node]])
@pytest.mark.parametrize("mode", ["validation", "serialization"])
def test_what_pydantic_writes_is_accepted(kind: Any, mode: Literal["validation", "serialization"]) -> None:
    OutputSchema(TypeAdapter(kind).json_schema(mode=mode))


def test_words_of_json_schema_are_names_of_properties_as_well() -> None:
    names = ("$ref", "$id", "id", "enum", "pattern", "items", "properties", "$defs", "not")
    schema = OutputSchema({"type": "object", "properties": {name: {"type": "integer"} for name in names}})
    assert schema.check('{"$ref": 1, "pattern": 2}').value == {"$ref": 1, "pattern": 2}


def test_values_are_not_taken_for_schemas() -> None:
    OutputSchema(
        {"enum": [{"$ref": "http://example.org/"}], "default": {"$id": "x"}, "examples": [{"$anchor": "x"}]}
    )


def test_the_name_of_the_whole_is_no_address() -> None:
    named = OutputSchema(
        {"$id": "https://example.org/me.json", "$ref": "#/$defs/a", "$defs": {"a": {"const": 1}}}
    )
    assert named.check("1").value == 1
