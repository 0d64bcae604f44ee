"""JSON of others: nothing is read that could not be written again."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pallas_common.protocol.agent.output_schema.strict_json import depth_and_size, read_json

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
)


@given(VALUES)
def test_what_json_has_is_read(value: object) -> None:
    assert read_json(json.dumps(value)) == read_json(json.dumps(value, ensure_ascii=False)) == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("NaN", "NaN is no number of JSON"),
        ("[-Infinity]", "-Infinity is no number of JSON"),
        ("1e999", "a number is too large"),
        ('{"a": -1e999}', "a number is too large"),
        ("9" * 5000, "digits"),
        ('"\\ud800"', "surrogates not allowed"),
        ('"\ud800"', "surrogates not allowed"),
        ("{", "Expecting property name"),
        ("", "Expecting value"),
    ],
)
def test_anything_else_is_not(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_json(text)


def test_depth_and_size() -> None:
    assert depth_and_size(1) == (0, 1)
    assert depth_and_size([]) == (0, 1)
    assert depth_and_size({"a": [1, {"b": 2}]}) == (3, 7)
