"""Fields of chat completions as clients send them: what is read, what is refused, and how the rest is named."""

from __future__ import annotations

from typing import Any

import pytest

from pallas_common.protocol.agent.completion import (
    LONGEST_HEADER,
    MOST_NAMED,
    ignored_header,
    overriding,
    read_fields,
)
from pallas_common.protocol.agent.parameters import ParameterError

OFF: dict[str, Any] = {
    "n": 1,
    "tools": [],
    "functions": None,
    "function_call": "none",
    "logprobs": False,
    "top_logprobs": 0,
    "modalities": ["text"],
    "audio": {},
    "web_search_options": None,
    "stop": [],
    "logit_bias": {},
    "max_tokens": -1,
    "max_completion_tokens": -1,
    "top_k": -1,
    "reasoning_effort": "",
    "verbosity": None,
    "plugins": [],
}


@pytest.mark.parametrize("name", OFF)
def test_null_what_is_empty_and_what_means_off_are_absent(name: str) -> None:
    assert read_fields({"model": "a", name: OFF[name]}) == ({"model": "a"}, ())


def test_null_clears_what_the_definition_says_of_a_parameter() -> None:
    assert read_fields({"temperature": None, "tools_allowlist": []}).read == {
        "temperature": None,
        "tools_allowlist": [],
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n", 2),
        ("n", True),
        ("tools", [{}]),
        ("functions", [{}]),
        ("function_call", {"name": "f"}),
        ("web_search_options", {}),
        ("logprobs", True),
        ("logprobs", 0),
        ("top_logprobs", 5),
        ("audio", {"voice": "alloy"}),
        ("modalities", ["text", "audio"]),
        ("holds", ["a"]),
        ("tools_allow_list", []),
        ("system-override", "x"),
    ],
)
def test_what_would_change_what_the_caller_gets_is_refused(name: str, value: object) -> None:
    with pytest.raises(ParameterError) as refused:
        read_fields({name: value})
    assert refused.value.field == name


def test_a_field_that_nobody_knows_is_named() -> None:
    said = {"verbosity": "low", "chat_id": "c", "keep_alive": 5, "cache_prompt": False, "temprature": 1}
    assert read_fields(said) == ({}, tuple(said))


def test_names_are_bounded() -> None:
    ignored = read_fields({f"{number} {'x' * 1000}": 1 for number in range(1000)}).ignored
    assert len(ignored) == MOST_NAMED + 1
    assert ignored[-1] == f"and {1000 - MOST_NAMED} more"
    assert max(map(len, ignored)) <= 60


def test_the_header_holds_whatever_a_name_is() -> None:
    names = [
        "top_k",
        "max_tokens=16384",
        "messages.content.image_url.detail",
        "a\r\nSet-Cookie: b",
        "ü,\ud800%",
    ]
    (header,) = ignored_header(names).values()
    assert header == (
        "top_k, max_tokens=16384, messages.content.image_url.detail, a%0D%0ASet-Cookie: b, %C3%BC%2C?%25"
    )
    assert ignored_header([]) == {}
    (long,) = ignored_header([str(number) + "é" * 60 for number in range(20)]).values()
    assert len(long) < LONGEST_HEADER + 20
    assert long.endswith("more")


def test_what_says_nothing_overrides_nothing() -> None:
    assert overriding({"resume": False, "hold": [], "extra": {}, "model_override": None}) is None
    assert overriding({"hold": ["*"], "system_override": ""}) == "system_override"
