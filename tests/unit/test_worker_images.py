"""Images as clients send them: what is taken, and what the error says about what is not."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pallas_worker.errors import ArgumentError
from pallas_worker.images import MIME_TYPES, Image, parse_images

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()


def test_absent_images_are_none() -> None:
    assert parse_images(None) == ()
    assert parse_images([]) == ()


@pytest.mark.parametrize("mime_type", MIME_TYPES)
def test_good_images_stay_as_they_came(mime_type: str) -> None:
    assert parse_images([{"data": PNG, "mime_type": mime_type}]) == (Image(PNG, mime_type),)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x", "images must be a list of objects, not string"),
        ({}, "images must be a list of objects, not object"),
        ([1], r"images\[0\] must be an object with data and mime_type, not number"),
        ([{"mime_type": "image/png"}], r"images\[0\]\.data must be a base64 string, not null"),
        ([{"data": PNG}], r"images\[0\]\.mime_type must be a string such as image/png, not null"),
        ([{"data": PNG, "mime_type": "image/tiff"}], r"images\[0\]\.mime_type must be one of .*'image/tiff'"),
        ([{"data": "äöü", "mime_type": "image/png"}], r"images\[0\]\.data is not base64"),
        ([{"data": "AAA", "mime_type": "image/png"}], r"images\[0\]\.data is not base64"),
        ([{"data": "AA A=", "mime_type": "image/png"}], r"images\[0\]\.data is not base64"),
        ([{"data": "", "mime_type": "image/png"}], r"images\[0\]\.data is empty"),
        ([{"data": f"data:image/png;base64,{PNG}", "mime_type": "image/png"}], "bare base64"),
        ([{"data": PNG, "mime_type": "image/png"}, None], r"images\[1\] must be an object"),
    ],
)
def test_a_bad_image_is_named_with_its_reason(value: Any, text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        parse_images(value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(json_values)
def test_whatever_comes_is_taken_or_refused(value: Any) -> None:
    refusal = ""
    try:
        parse_images(value)
    except ArgumentError as error:
        refusal = str(error)
    assert refusal == "" or (refusal.startswith("images") and len(refusal) < 300)
