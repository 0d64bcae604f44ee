"""Images as clients send them: what is taken, and what the error says about what is not."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pallas_common.protocol.agent.images import MAX_IMAGE_BYTES, MAX_IMAGES, MIME_TYPES
from pallas_worker.interface.errors import ArgumentError
from pallas_worker.interface.images import Image, parse_images
from support.data.image_data import BASE64, CONTENT, PNG


def test_absent_images_are_none() -> None:
    assert parse_images(None) == ()
    assert parse_images([]) == ()


@pytest.mark.parametrize("mime_type", MIME_TYPES)
def test_good_images_stay_as_they_came(mime_type: str) -> None:
    data = BASE64[mime_type]
    assert parse_images([{"data": data, "mime_type": mime_type}]) == (Image(data, mime_type),)


@pytest.mark.parametrize("mime_type", MIME_TYPES)
@pytest.mark.parametrize("content", [*MIME_TYPES, None])
def test_content_and_type_have_to_agree(mime_type: str, content: str | None) -> None:
    data = BASE64[content] if content else base64.b64encode(b"no image at all").decode()
    entry = {"data": data, "mime_type": mime_type}
    if content == mime_type:
        parse_images([entry])
        return
    found = f"is {content} by its content" if content else "does not begin as an image does"
    with pytest.raises(ArgumentError, match=rf"images\[0\]\.data {found}, and .* says {mime_type}"):
        parse_images([entry])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x", "images must be a list of objects, not a string"),
        ({}, "images must be a list of objects, not an object"),
        ([1], r"images\[0\] must be an object with data and mime_type, not a number"),
        ([{"mime_type": "image/png"}], r"images\[0\]\.data must be a base64 string, not null"),
        ([{"data": PNG}], r"images\[0\]\.mime_type must be a string such as image/png, not null"),
        ([{"data": PNG, "mime_type": "image/tiff"}], r"images\[0\]\.mime_type must be one of .*'image/tiff'"),
        ([{"data": PNG, "mime_type": "image/jpg"}], "must be one of image/png, image/jpeg, .*'image/jpg'"),
        ([{"data": "äöü", "mime_type": "image/png"}], r"images\[0\]\.data is not base64"),
        ([{"data": "AAA", "mime_type": "image/png"}], r"images\[0\]\.data is not base64: .* pad it with ="),
        ([{"data": "AA A=", "mime_type": "image/png"}], r"not base64: it contains white space"),
        ([{"data": f"{PNG}\n", "mime_type": "image/png"}], r"not base64: it contains white space"),
        ([{"data": "iV-_", "mime_type": "image/png"}], r"not base64: it uses the URL-safe alphabet"),
        ([{"data": "AA==AAAA", "mime_type": "image/png"}], r"images\[0\]\.data is not base64"),
        ([{"data": "AB==", "mime_type": "image/png"}], r"not base64: its last character"),
        ([{"data": "DATA:,x", "mime_type": "image/png"}], "bare base64"),
        ([{"data": "", "mime_type": "image/png"}], r"images\[0\]\.data is empty"),
        ([{"data": f"data:image/png;base64,{PNG}", "mime_type": "image/png"}], "bare base64"),
        ([{"data": PNG, "mime_type": "image/png"}, None], r"images\[1\] must be an object"),
    ],
)
def test_a_bad_image_is_named_with_its_reason(value: Any, text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        parse_images(value)


def test_one_image_may_have_so_many_bytes() -> None:
    def image(size: int) -> dict[str, str]:
        content = CONTENT["image/png"][:8] + bytes(size - 8)
        return {"data": base64.b64encode(content).decode(), "mime_type": "image/png"}

    assert parse_images([image(MAX_IMAGE_BYTES)])
    for size in (MAX_IMAGE_BYTES + 1, MAX_IMAGE_BYTES + 3, 2 * MAX_IMAGE_BYTES):
        with pytest.raises(ArgumentError, match=r"images\[0\]\.data is too large: an image may have 20 MiB"):
            parse_images([image(size)])


def test_one_message_may_have_so_many_images() -> None:
    image = {"data": PNG, "mime_type": "image/png"}
    assert len(parse_images([image] * MAX_IMAGES)) == MAX_IMAGES
    with pytest.raises(ArgumentError, match="images has 21 images; 20 are allowed in one message"):
        parse_images([image] * (MAX_IMAGES + 1))


@given(st.binary(max_size=40))
def test_the_bytes_are_those_of_any_strict_reader(content: bytes) -> None:
    """What is taken decodes to what was encoded; whatever else decodes to the same is refused."""
    signed = CONTENT["image/png"] + content
    data = base64.b64encode(signed).decode()
    (image,) = parse_images([{"data": data, "mime_type": "image/png"}])
    assert binascii.a2b_base64(image.data) == signed
    for other in (data.rstrip("="), data + "=", data + "\n"):
        if other != data:
            with pytest.raises(ArgumentError):
                parse_images([{"data": other, "mime_type": "image/png"}])


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
