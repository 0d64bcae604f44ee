"""JSON of others: nothing is read that could not be written again."""

from __future__ import annotations

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pallas_common.http.json_bounds import (
    DEEPEST,
    MOST_VALUES,
    TooDeepError,
    TooManyValuesError,
    depth_and_size,
    is_number_of_json,
    parse_bounded,
    read_bounded,
    read_json,
    whole_text,
    whole_value,
)

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
        ("9" * 5000, "a number is too large"),
        ("9" * 309, "a number is too large"),
        ("-1" + "0" * 309, "a number is too large"),
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


def test_the_largest_numbers_are_read() -> None:
    largest = int(sys.float_info.max)
    assert read_json(f"[{largest}, {-largest}, {sys.float_info.max}]") == [
        largest,
        -largest,
        sys.float_info.max,
    ]
    assert is_number_of_json(largest)
    assert not is_number_of_json(largest * 2)
    assert not is_number_of_json(float("nan"))


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"[" * DEEPEST + b"[]" + b"]" * DEEPEST, TooDeepError),
        (b"[" * 200_000, TooManyValuesError),
        (b"[" * 90_000, TooDeepError),
        (b"[" + b"1," * MOST_VALUES + b"1]", TooManyValuesError),
        (b'"\xff"', UnicodeDecodeError),
        ('"x"'.encode("utf-16"), ValueError),
        (b'["\\ud800"]', UnicodeEncodeError),
    ],
)
def test_bodies_are_bounded(body: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        read_bounded(body)


def test_halves_may_be_left_as_they_are() -> None:
    assert parse_bounded(b'["\\ud800"]') == ["\ud800"]


@given(st.text())
def test_whole_texts_are_kept_by_everybody(text: str) -> None:
    whole = whole_text(text)
    whole.encode()
    assert "\x00" not in whole
    assert whole_text(whole) == whole
    if "\ufffd" not in whole:
        assert whole == text


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("", ""),
        ("a\x00b", "a\ufffdb"),
        ("\ud83d\ude00", "\U0001f600"),
        ("a\ud83d", "a\ufffd"),
        ("\ude00b", "\ufffdb"),
        ("\ude00\ud83d", "\ufffd\ufffd"),
        ("\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
        ("\U0001f600", "\U0001f600"),
    ],
)
def test_whole_texts(text: str, whole: str) -> None:
    assert whole_text(text) == whole
    assert whole_value({text: [text, 1, None, {"a": (text,)}]}) == {whole: [whole, 1, None, {"a": [whole]}]}
