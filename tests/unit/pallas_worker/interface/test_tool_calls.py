"""The calls of an assistant's row, and what its provider needs again: taken, or refused with the field's name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pallas_worker.interface.errors import ArgumentError
from pallas_worker.interface.tool_calls import (
    MAX_ARGUMENTS,
    MAX_BLOCKS,
    MAX_CALLS,
    MAX_CHANNELS,
    MAX_DEPTH,
    MAX_NAME,
    MAX_STATE,
    MAX_VALUES,
    Budget,
    ToolCall,
    parse_channels,
    parse_object,
    readable_calls,
)

GOOD = {"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}


def function(**fields: Any) -> dict[str, Any]:
    return {"id": "2", "function": {"name": "add", **fields}}


def nested(levels: int) -> str:
    return '{"a":' * (levels - 1) + "{}" + "}" * (levels - 1)


def test_no_calls() -> None:
    assert readable_calls(None, Budget()) == readable_calls([], Budget()) == ((), None)


@pytest.mark.parametrize("arguments", [{"arguments": "{}"}, {"arguments": ""}, {"arguments": None}, {}])
def test_a_call_may_have_no_arguments(arguments: dict[str, Any]) -> None:
    assert readable_calls([GOOD, function(**arguments)], Budget()).calls == (
        ToolCall("1", "add", {"a": 1}),
        ToolCall("2", "add", {}),
    )


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (None, "tool_calls[1] must be an object with id, type and function"),
        ({}, "tool_calls[1].id must be a string of 1 to 256 characters"),
        ({"id": "x" * (MAX_NAME + 1)}, "tool_calls[1].id must be a string of 1 to 256 characters"),
        ({"id": "a\nb"}, "tool_calls[1].id has characters that cannot be printed"),
        (GOOD, "tool_calls[1].id is that of another call of this row"),
        ({"id": "2", "type": "custom"}, 'tool_calls[1].type must be "function"'),
        ({"id": "2"}, "tool_calls[1].function must be an object with name and arguments"),
        (function(name=7), "tool_calls[1].function.name must be a string of 1 to 256 characters"),
        (
            function(arguments={}),
            "tool_calls[1].function.arguments must be a string with a JSON object in it",
        ),
        (function(arguments="[]"), "tool_calls[1].function.arguments must be a JSON object"),
        (
            function(arguments='{"a": NaN}'),
            "tool_calls[1].function.arguments is not JSON: NaN is no number of JSON",
        ),
        (
            function(arguments=nested(MAX_DEPTH + 2)),
            "tool_calls[1].function.arguments is nested too deep: 64 levels are allowed",
        ),
        (
            function(arguments="[" * 100_000),
            "tool_calls[1].function.arguments is nested too deep: 64 levels are allowed",
        ),
        (
            function(arguments=json.dumps({"a": "x" * MAX_ARGUMENTS})),
            "tool_calls[1].function.arguments is too large: it may have 1 Mi characters",
        ),
    ],
)
def test_a_malformed_call_is_left_out_alone(call: Any, reason: str) -> None:
    assert readable_calls([GOOD, call], Budget()) == ((ToolCall("1", "add", {"a": 1}),), reason)


@pytest.mark.parametrize(
    "arguments", ['{"a": "\\ud800"}', '{"a": 1e999}', '{"a": 1', '{"a": ' + "9" * 5000 + "}"]
)
def test_what_cannot_be_sent_on_is_no_argument(arguments: str) -> None:
    calls, reason = readable_calls([function(arguments=arguments)], Budget())
    assert not calls
    assert (reason or "").startswith("tool_calls[0].function.arguments is not JSON: ")


def test_calls_are_bounded() -> None:
    calls, reason = readable_calls([GOOD | {"id": str(number)} for number in range(MAX_CALLS + 1)], Budget())
    assert len(calls) == MAX_CALLS
    assert reason == "tool_calls has 129 calls; 128 are allowed in one message"
    assert readable_calls({}, Budget()).reason == "tool_calls must be a list of objects, not dict"


def test_calls_of_a_request_share_what_their_arguments_may_have() -> None:
    budget = Budget()
    half = GOOD | {"function": {"name": "add", "arguments": json.dumps({"a": [0] * (MAX_VALUES // 2)})}}
    assert readable_calls([half], budget).reason is None
    calls, reason = readable_calls([half | {"id": "2"}, GOOD | {"id": "3"}], budget)
    assert not calls
    assert reason == (
        "tool_calls[0].function.arguments is too large: the arguments of all calls may have 100000 values and "
        "keys together"
    )
    assert readable_calls([function()], budget).reason is None


def test_what_is_beyond_it_is_not_read() -> None:
    _, reason = readable_calls([function(arguments="no JSON")], Budget(0))
    assert "is too large" in (reason or "")


def test_an_object_may_be_so_deep() -> None:
    assert parse_object(nested(MAX_DEPTH), "it") == json.loads(nested(MAX_DEPTH))


def test_what_a_provider_needs_again_is_taken() -> None:
    assert parse_channels(None) == parse_channels({}) == parse_channels({"channels": None, "more": 1}) == {}
    assert parse_channels({"channels": {"a": ["x", "y"], "b": []}}) == {"a": ("x", "y"), "b": ()}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ([], "pallas must be an object"),
        ({"channels": []}, "pallas.channels must be an object of at most 16 lists of strings"),
        (
            {"channels": {str(number): [] for number in range(MAX_CHANNELS + 1)}},
            "pallas.channels must be an object of at most 16 lists of strings",
        ),
        ({"channels": {"a": "x"}}, "pallas.channels.a must be a list of strings"),
        ({"channels": {"a": ["x", 1]}}, "pallas.channels.a must be a list of strings"),
        ({"channels": {"a": [""] * (MAX_BLOCKS + 1)}}, "pallas.channels.a is too large: 1000 strings are *"),
        (
            {"channels": {"a": ["x" * MAX_STATE], "b": ["x"]}},
            "pallas.channels.b is too large: 1000 strings are *",
        ),
    ],
)
def test_anything_else_is_refused(value: Any, reason: str) -> None:
    with pytest.raises(ArgumentError) as error:
        parse_channels(value)
    assert str(error.value).startswith(reason.rstrip("*"))
