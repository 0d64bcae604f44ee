"""Images as a client sends them with a message: checked, and never changed.

Pure. Knows the shape `{"data": base64, "mime_type": "image/png"}`; must not know models or messages.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pallas_common.problems import kind_of
from pallas_common.protocol.agent.images import MAX_IMAGE_BYTES, MAX_IMAGES, MIME_TYPES, image_type
from pallas_worker.interface.errors import ArgumentError


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
        raise _no_list(where, value)
    if len(value) > MAX_IMAGES:
        raise _too_many(where, len(value))
    return tuple(_parse_image(entry, f"{where}[{index}]") for index, entry in enumerate(value))


class Readable(NamedTuple):
    """What a message keeps that is not to be lost for an image of it."""

    images: tuple[Image, ...]
    left_out: int = 0
    reason: str | None = None
    """What is wrong with the first that is left out."""


def readable_images(value: object) -> Readable:
    """The images of an argument without those that are malformed; of more than `MAX_IMAGES`, the first ones."""
    if value is None:
        return Readable(())
    if not isinstance(value, list):
        return Readable((), 1, str(_no_list("images", value)))
    images: list[Image] = []
    reason: str | None = None
    for index, entry in enumerate(value[:MAX_IMAGES]):
        try:
            images.append(_parse_image(entry, f"images[{index}]"))
        except ArgumentError as error:
            reason = reason or str(error)
    if len(value) > MAX_IMAGES:
        reason = reason or str(_too_many("images", len(value)))
    return Readable(tuple(images), len(value) - len(images), reason)


def _parse_image(entry: object, where: str) -> Image:
    if not isinstance(entry, Mapping):
        raise ArgumentError(f"{where} must be an object with data and mime_type, not {kind_of(entry)}")
    data, mime_type = entry.get("data"), entry.get("mime_type")
    if not isinstance(data, str):
        raise ArgumentError(f"{where}.data must be a base64 string, not {kind_of(data)}")
    if not isinstance(mime_type, str):
        raise ArgumentError(f"{where}.mime_type must be a string such as image/png, not {kind_of(mime_type)}")
    if mime_type not in MIME_TYPES:
        raise ArgumentError(
            f"{where}.mime_type must be one of {', '.join(MIME_TYPES)}, not {mime_type[:80]!r}"
        )
    return _checked(data, mime_type, f"{where}.data", "its mime_type")


def parse_data_url(value: object, where: str) -> Image:
    """The image of a data URL, as chat completions have it in `image_url`. No other URL is fetched.

    Raises:
        ArgumentError: it is something else, or no image that is allowed.
    """
    if not isinstance(value, str):
        raise ArgumentError(f"{where} must be a string, not {kind_of(value)}")
    head, _, data = value.partition(",")
    found = re.fullmatch(r"data:([^;,]{1,80});base64", head[:100], re.IGNORECASE)
    if found is None:
        raise ArgumentError(f"{where} must be a data URL, data:image/png;base64,…: no other one is fetched")
    mime_type = found[1].lower()
    if mime_type not in MIME_TYPES:
        raise ArgumentError(f"{where} must be one of {', '.join(MIME_TYPES)}, not {mime_type!r}")
    return _checked(data, mime_type, where, "its URL")


def _checked(data: str, mime_type: str, where: str, said: str) -> Image:
    decoded = _decode(data, where)
    if (found := image_type(decoded)) != mime_type:
        content = f"is {found} by its content" if found else "does not begin as an image does"
        raise ArgumentError(f"{where} {content}, and {said} says {mime_type}")
    return Image(data, mime_type)


def _decode(data: str, where: str) -> bytes:
    """The bytes of RFC 4648's base64, padding included; any laxer reading is for the client to decide on."""
    if data[:5].lower() == "data:":
        raise ArgumentError(f"{where} must be bare base64, without the prefix 'data:…;base64,'")
    if len(data) // 4 * 3 > MAX_IMAGE_BYTES + 2:
        raise _too_large(where)
    try:
        decoded = binascii.a2b_base64(data, strict_mode=True)
    except (binascii.Error, ValueError) as error:
        raise ArgumentError(f"{where} is not base64: {_why(data) or error}") from error
    if not decoded:
        raise ArgumentError(f"{where} is empty")
    if binascii.b2a_base64(decoded[-(len(decoded) % 3 or 3) :], newline=False) != data[-4:].encode():
        raise ArgumentError(f"{where} is not base64: its last character has bits that belong to no byte")
    if len(decoded) > MAX_IMAGE_BYTES:
        raise _too_large(where)
    return decoded


def _why(data: str) -> str | None:
    """What commonly makes base64 unreadable, where it is that."""
    if re.search(r"\s", data):
        return "it contains white space or line breaks; remove them"
    if re.search(r"[-_]", data):
        return "it uses the URL-safe alphabet; write + and / in place of - and _"
    if len(data) % 4:
        return "its length is no multiple of 4; pad it with ="
    return None


def _no_list(where: str, value: object) -> ArgumentError:
    return ArgumentError(f"{where} must be a list of objects, not {kind_of(value)}")


def _too_many(where: str, count: int) -> ArgumentError:
    return ArgumentError(f"{where} has {count} images; {MAX_IMAGES} are allowed in one message")


def _too_large(where: str) -> ArgumentError:
    return ArgumentError(f"{where} is too large: an image may have {MAX_IMAGE_BYTES // 1024**2} MiB")
