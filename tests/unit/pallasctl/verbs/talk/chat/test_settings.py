"""Values of parameters as they are typed."""

from __future__ import annotations

import pytest

from pallasctl.verbs.talk.chat.settings import NAMES, SettingError, Settings

NAMED = {"type": "function", "function": {"name": "a__b"}}


@pytest.mark.parametrize(
    ("name", "said", "value"),
    [
        ("temperature", "0", 0),
        ("top_k", "5", 5),
        ("max_tokens", "null", None),
        ("stop", '["a", "b"]', ["a", "b"]),
        ("stop", "END", "END"),
        ("tool_choice", "none", "none"),
        (
            "tool_choice",
            '{"type": "function", "function": {"name": "a__b"}}',
            {"type": "function", "function": {"name": "a__b"}},
        ),
        ("response_format", '{"type": "json_object"}', {"type": "json_object"}),
        ("tools_allowlist", "[]", []),
        ("systemOverride", "Rhyme.", "Rhyme."),
        ("systemOverride", "42", "42"),
        ("systemAppend", '"quoted"', "quoted"),
        ("extra", '{"min_tokens": 5}', {"min_tokens": 5}),
    ],
)
def test_a_value(name: str, said: str, value: object) -> None:
    settings = Settings()
    settings.set(name, said)
    assert settings.parameters == {name: value}


@pytest.mark.parametrize(
    ("name", "said", "complaint"),
    [
        ("temperature", "warm", "is no JSON"),
        ("temperature", '"1"', "must be a number"),
        ("temperature", "NaN", "is no JSON"),
        ("seed", "1.5", "whole number"),
        ("stop", '["a", "b", "c", "d", "e"]', "1 to 4"),
        ("stop", '["a"', "is no JSON"),
        ("tool_choice", "some", "tool_choice"),
        ("response_format", "json", "is no JSON"),
        ("response_format", '"json"', "must be an object"),
        ("tools_allowlist", '"a"', "list of names"),
        ("tools_allowlist", "[1]", "list of names"),
        ("extra", "[" * 100_000, "is no JSON"),
        ("extra", "1", "extra"),
        ("message", "x", "there is no parameter 'message'"),
    ],
)
def test_what_is_no_value(name: str, said: str, complaint: str) -> None:
    settings = Settings()
    with pytest.raises(SettingError, match=complaint):
        settings.set(name, said)
    assert settings.parameters == {}


def test_all_of_the_reference_can_be_set() -> None:
    table = (
        "temperature top_p top_k max_tokens stop presence_penalty frequency_penalty seed response_format tool_choice "
        "tools_allowlist systemOverride systemAppend extra"
    )
    assert set(table.split()) <= set(NAMES)
