"""Tools as providers take them: their names and schemas."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import Tool

from pallas_worker.fastagent.tools.offered import complete, offer_of, offered_name

if TYPE_CHECKING:
    from collections.abc import Mapping

PLAIN = {"type": "object", "properties": {"a": {"type": "string"}}}


def tool(name: str, schema: Mapping[str, Any] = PLAIN) -> Tool:
    return Tool(name=name, input_schema=dict(schema))


@given(st.text(min_size=1, max_size=300))
def test_every_name_can_be_sent_and_is_the_same_each_time(name: str) -> None:
    offered = offered_name(name)
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", offered)
    assert offered == offered_name(name) == offered_name(offered)


@given(st.sets(st.text("aä.b/_-", min_size=1, max_size=80), max_size=30))
def test_names_are_no_doubles_and_lead_back(names: set[str]) -> None:
    offer = offer_of([tool(name) for name in sorted(names)])
    offered = [each.name for each in offer.tools]
    assert len(set(offered)) == len(offered)
    assert {offer.own.get(name, name) for name in offered} == names


def test_a_name_that_another_tool_has_taken_is_left_out_and_said(caplog: pytest.LogCaptureFixture) -> None:
    made_up = offered_name("git__my.server")
    offer = offer_of([tool("git__my.server"), tool(made_up), tool("git__fine")])
    assert ([each.name for each in offer.tools], offer.own) == ([made_up, "git__fine"], {})
    assert f"the tool 'git__my.server' is left out: another tool is called {made_up} there" in caplog.text


def test_what_is_fine_is_sent_as_it_is() -> None:
    one = tool("git__commit", {"type": "object", "properties": {"files": {"type": "array", "items": PLAIN}}})
    offer = offer_of([one])
    assert offer.tools[0] is one
    assert complete(one.input_schema) is one.input_schema


@pytest.mark.parametrize(
    ("schema", "completed"),
    [
        ({}, {"type": "object", "properties": {}}),
        ({"type": "object"}, {"type": "object", "properties": {}}),
        ({"type": ["object", "null"], "properties": {}}, {"type": "object", "properties": {}}),
        (
            {"$schema": "http://json-schema.org/draft-07/schema#", **PLAIN},
            PLAIN,
        ),
        (
            {"type": "object", "properties": {"$schema": {"type": "string"}, "l": {"type": "array"}}},
            {
                "type": "object",
                "properties": {"$schema": {"type": "string"}, "l": {"type": "array", "items": {}}},
            },
        ),
        (
            {"type": "object", "properties": {"l": {"type": ["array", "null"], "items": {"type": "array"}}}},
            {
                "type": "object",
                "properties": {
                    "l": {"type": ["array", "null"], "items": {"type": "array", "items": {}}},
                },
            },
        ),
        (
            {"type": "object", "anyOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}, {}]},
            PLAIN,
        ),
        (
            {"type": "object", "properties": {"a": {"enum": [{"type": "array"}], "default": []}}},
            {"type": "object", "properties": {"a": {"enum": [{"type": "array"}], "default": []}}},
        ),
    ],
)
def test_schemas_are_completed(schema: dict[str, Any], completed: dict[str, Any]) -> None:
    before = repr(schema)
    assert complete(schema) == completed
    assert repr(schema) == before, "the server's own is left alone"


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (nested(500), "its schema has more than 60 levels"),
        (
            {"type": "object", "properties": {"a": {"$ref": "https://example.org/a.json"}}},
            "its schema refers to another document",
        ),
    ],
)
def test_one_that_cannot_be_sent_is_left_out_and_named(
    schema: dict[str, Any], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        offer = offer_of([tool(f"odd__{why[-5:]}", schema), tool("fine")])
        assert [each.name for each in offer.tools] == ["fine"]
    assert caplog.text.count(f"is left out: {why}") == 1
