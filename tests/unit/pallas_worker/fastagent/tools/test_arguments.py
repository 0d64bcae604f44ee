"""Calls of one message as they can be kept: names, ids, arguments, and how many."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import CallToolRequest, CallToolRequestParams

from pallas_worker.fastagent.tools.arguments import UnreadableCall, readable
from pallas_worker.interface.tool_calls import MAX_CALLS, MAX_NAME, Budget, readable_calls

ANY = st.text(st.characters())
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY,
    lambda inner: st.lists(inner) | st.dictionaries(ANY, inner),
    max_leaves=8,
)


def request(name: str = "add", arguments: object = None) -> CallToolRequest:
    params = CallToolRequestParams.model_construct(name=name, arguments=arguments)
    return CallToolRequest(method="tools/call", params=params)


@given(st.dictionaries(ANY, st.tuples(ANY, st.dictionaries(ANY, VALUES, max_size=3)), max_size=3))
def test_whatever_a_model_calls_is_read_again(calls: dict[str, tuple[str, dict[str, object]]]) -> None:
    kept = readable({id_: request(*call) for id_, call in calls.items()})
    sent = [
        {
            "id": id_,
            "type": "function",
            "function": {"name": call.params.name, "arguments": json.dumps(call.params.arguments)},
        }
        for id_, call in kept.items()
    ]
    found = readable_calls(json.loads(json.dumps(sent, ensure_ascii=False).encode()), Budget())
    assert found.reason is None
    assert len(found.calls) == len(kept)
    assert [dict(call.arguments) for call in found.calls] == [call.params.arguments for call in kept.values()]


def test_what_can_be_kept_is_left_as_it_is() -> None:
    calls = {"c1": request(arguments={"a": 1, "b": [None, "ä"]})}
    assert readable(calls)["c1"] is calls["c1"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"a": float("nan")}, "NaN is no number of JSON"),
        ({"a": 10**400}, "a number is too large"),
        ({"a": [0] * 20_000}, "more than 10000 values"),
        ({"a": "x" * 2 * 1024**2}, "larger than 1 Mi characters"),
        ({"a": {1, 2}}, "not JSON serializable"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_cannot_be_kept_does_not_run(arguments: object, reason: str) -> None:
    call = readable({"c1": request(arguments=arguments)})["c1"]
    assert isinstance(call, UnreadableCall)
    assert call.params.arguments == {}
    assert reason in call.reason


def test_names_and_ids_are_printable_and_short() -> None:
    kept = readable({"": request(""), "a\nb": request("x\x00\ud800" + "y" * 1000), "c" * 1000: request()})
    first, second, third = kept
    assert first.startswith("call_")
    assert (second, third) == ("a_b", "c" * MAX_NAME)
    names = [call.params.name for call in kept.values()]
    assert names[0] == "unnamed"
    assert names[1].startswith("x\ufffd\ufffdyyy")
    assert len(names[1]) == MAX_NAME


def test_calls_beyond_those_that_a_message_may_have_are_not_taken_up() -> None:
    kept = readable({f"c{number}": request() for number in range(MAX_CALLS + 10)})
    assert [*kept] == [f"c{number}" for number in range(MAX_CALLS)]
