"""The parameters of a turn, checked by one table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pallas_common.protocol.agent.parameters import (
    MAX_EXTRA_BYTES,
    PARAMETERS,
    Function,
    ParameterError,
    parse_parameters,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

GOOD: list[tuple[str, Any]] = [
    ("temperature", 0),
    ("temperature", 2.0),
    ("top_p", 1),
    ("top_k", 1),
    ("min_p", 0.05),
    ("repetition_penalty", 1.1),
    ("presence_penalty", -2),
    ("frequency_penalty", 2),
    ("logit_bias", {"50256": -100}),
    ("seed", -(2**63)),
    ("max_tokens", 1),
    ("tool_choice", "required"),
    ("parallel_tool_calls", False),
    ("reasoning_effort", "none"),
    ("service_tier", "flex"),
]

BAD: list[tuple[str, Any, str]] = [
    ("temperature", 2.1, "temperature"),
    ("temperature", True, "temperature"),
    ("temperature", "1", "temperature"),
    ("temperature", float("nan"), "temperature"),
    ("top_p", -0.1, "top_p"),
    ("top_k", 0, "top_k"),
    ("top_k", 1.0, "top_k"),
    ("min_p", 2, "min_p"),
    ("repetition_penalty", 11, "repetition_penalty"),
    ("presence_penalty", -2.1, "presence_penalty"),
    ("logit_bias", [], "logit_bias"),
    ("logit_bias", {"x": 1}, "logit_bias"),
    ("logit_bias", {"1": 101}, "logit_bias.1"),
    ("logit_bias", {str(i): 0 for i in range(1025)}, "logit_bias"),
    ("seed", 2**63, "seed"),
    ("seed", 10**10_000, "seed"),
    ("max_tokens", 0, "max_tokens"),
    ("max_tokens", False, "max_tokens"),
    ("stop", "", "stop"),
    ("stop", [], "stop"),
    ("stop", ["a"] * 5, "stop"),
    ("stop", ["a", 1], "stop[1]"),
    ("stop", ["a" * 257], "stop[0]"),
    ("stop", {}, "stop"),
    ("stop", "\ud800", "stop"),
    ("tool_choice", "any", "tool_choice"),
    ("tool_choice", {"type": "function"}, "tool_choice"),
    ("tool_choice", {"type": "function", "function": {"name": "a b"}}, "tool_choice.function.name"),
    ("tool_choice", {"type": "function", "function": {"name": "a", "x": 1}}, "tool_choice"),
    ("parallel_tool_calls", "yes", "parallel_tool_calls"),
    ("reasoning_effort", "extreme", "reasoning_effort"),
    ("service_tier", 1, "service_tier"),
    ("temperatur", 1, "temperatur"),
    ("extra", [], "extra"),
]


@pytest.mark.parametrize(("name", "value"), GOOD)
def test_a_value_within_its_range_is_taken_as_it_is(name: str, value: Any) -> None:
    parsed = parse_parameters({name: value})
    assert parsed is not None
    assert parsed.values == {name: value}


@pytest.mark.parametrize(("name", "value", "field"), BAD, ids=range(len(BAD)))
def test_a_value_that_does_not_fit_is_refused_with_its_field(name: str, value: Any, field: str) -> None:
    with pytest.raises(ParameterError) as refused:
        parse_parameters({name: value})
    assert refused.value.field == field
    assert str(refused.value).startswith(f"{field}: ")
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize("name", [name for name in PARAMETERS if name != "max_completion_tokens"])
def test_null_clears_a_default(name: str) -> None:
    parsed = parse_parameters({name: None})
    assert parsed is not None
    assert parsed.values == {name: None}


def test_nothing_given_is_nothing() -> None:
    assert parse_parameters({}) is None
    assert parse_parameters({"extra": None}) is None
    assert parse_parameters({"extra": {}}) is None


@pytest.mark.parametrize(("given", "stops"), [("x", ("x",)), (["x", "y"], ("x", "y"))])
def test_stop_sequences_are_a_tuple(given: object, stops: tuple[str, ...]) -> None:
    parsed = parse_parameters({"stop": given})
    assert parsed is not None
    assert parsed.values["stop"] == stops


def test_a_tool_can_be_named() -> None:
    parsed = parse_parameters({"tool_choice": {"type": "function", "function": {"name": "a__b"}}})
    assert parsed is not None
    assert parsed.values["tool_choice"] == Function("a__b")


def test_both_names_of_the_limit_have_to_agree() -> None:
    one = parse_parameters({"max_completion_tokens": 5})
    both = parse_parameters({"max_tokens": 5, "max_completion_tokens": 5})
    assert one == both
    assert one is not None
    assert one.values == {"max_tokens": 5}
    with pytest.raises(ParameterError, match="max_completion_tokens: differs from max_tokens"):
        parse_parameters({"max_tokens": 5, "max_completion_tokens": 6})


def test_extra_takes_what_has_no_name_here() -> None:
    extra = {"metadata": {"user_id": "u"}, "repetition_penalty": 1.1, "guided_choice": ["a"]}
    parsed = parse_parameters({"extra": extra})
    assert parsed is not None
    assert parsed.extra == extra


@pytest.mark.parametrize(
    "key",
    [
        *("temperature", "tool_choice", "max_tokens", "response_format", "stop"),
        *("model", "messages", "stream", "tools", "system", "input", "instructions", "mcp_servers"),
        *(
            "extra_headers",
            "Extra-Headers",
            " extra_headers",
            "extra_query",
            "extra_body",
            "timeout",
            "headers",
        ),
        *("me\u017f\u017fages", "TOOL\u017f", "Model"),
    ],
)
def test_extra_takes_no_name_that_is_taken_and_nothing_beside_the_body(key: str) -> None:
    with pytest.raises(ParameterError) as refused:
        parse_parameters({"extra": {key: {"x": "y"}}})
    assert refused.value.field == f"extra.{key}"


def test_a_parameter_does_not_stand_twice() -> None:
    with pytest.raises(ParameterError, match=r"extra\.min_p: stands beside extra"):
        parse_parameters({"min_p": 0.1, "extra": {"min_p": 0.2}})


def test_extra_is_bounded() -> None:
    deep: dict[str, Any] = {}
    for _ in range(8):
        deep = {"x": deep}
    for extra in (deep, {"x": "y" * 70_000}, {"x": float("inf")}, {"x": 2**65}, {"\ud800": 1}):
        with pytest.raises(ParameterError) as refused:
            parse_parameters({"extra": extra})
        assert refused.value.field == "extra"


class Long(list[object]):
    """A list of which no more is read than could be sent."""

    def __iter__(self) -> Iterator[object]:
        for _ in range(MAX_EXTRA_BYTES + 1):
            yield 1
        raise AssertionError("it is read on")


class Text(str):
    """A text that is not looked at character by character."""

    __slots__ = ()

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("it is read")


@pytest.mark.parametrize("value", [Long(), [Long()], Text("x" * 70_000)], ids=["long", "deeper", "text"])
def test_extra_that_is_too_large_is_not_read_to_its_end(value: object) -> None:
    with pytest.raises(ParameterError, match="larger than 64 KiB"):
        parse_parameters({"extra": {"x": value}})
