"""Images as a client sends them with a message: checked, and never changed.

Pure. Knows the shape `{"data": base64, "mime_type": "image/png"}`; must not know models or messages.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field

from pallas_worker.errors import ArgumentError

MIME_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""What LLM providers take as an image."""


@dataclass(frozen=True, slots=True)
class Image:
    """One image: `data` is base64, as it came."""

    data: str = field(repr=False)
    mime_type: str


def parse_images(value: object, where: str = "images") -> tuple[Image, ...]:
    """The images of an argument that may be absent (None).

    `where` names the argument in errors, as in `images[2].data`.

    Raises:
        ArgumentError: the value or one of its entries is not what the interface document says.
    """
    if value is None:
        return ()
    if not isinstance(value, list):
        raise ArgumentError(f"{where} must be a list of objects, not {_kind(value)}")
    return tuple(_parse_image(entry, f"{where}[{index}]") for index, entry in enumerate(value))


def _parse_image(entry: object, where: str) -> Image:
    if not isinstance(entry, Mapping):
        raise ArgumentError(f"{where} must be an object with data and mime_type, not {_kind(entry)}")
    data, mime_type = entry.get("data"), entry.get("mime_type")
    if not isinstance(data, str):
        raise ArgumentError(f"{where}.data must be a base64 string, not {_kind(data)}")
    if not isinstance(mime_type, str):
        raise ArgumentError(f"{where}.mime_type must be a string such as image/png, not {_kind(mime_type)}")
    if mime_type not in MIME_TYPES:
        raise ArgumentError(
            f"{where}.mime_type must be one of {', '.join(MIME_TYPES)}, not {mime_type[:80]!r}"
        )
    if data.startswith("data:"):
        raise ArgumentError(f"{where}.data must be bare base64, without the prefix 'data:…;base64,'")
    try:
        decoded = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ArgumentError(f"{where}.data is not base64: {error}") from error
    if not decoded:
        raise ArgumentError(f"{where}.data is empty")
    return Image(data, mime_type)


def _kind(value: object) -> str:
    """What JSON calls the value's type."""
    if value is None:
        return "null"
    names = {bool: "boolean", int: "number", float: "number", str: "string", list: "array", dict: "object"}
    return names.get(type(value), type(value).__name__)
