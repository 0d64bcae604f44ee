"""The text of one part of a message, in the shapes in which chat clients send it.

Pure. Knows text, and files that are text; images are `images`'s.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING

from pallas_common.problems import kind_of, quoted, shortened
from pallas_worker.interface.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

_DATA_URL = re.compile(r"data:([^,]{0,200}),(.*)", re.DOTALL)
_TEXT_TYPE = re.compile(
    r"text/[\w.+-]+|application/(?:[\w.-]+\+)?(?:json|xml|yaml|toml)"
    r"|application/(?:x-(?:yaml|ndjson|sh|python)|javascript|typescript|sql|jsonl)",
    re.IGNORECASE,
)
_LONGEST_NAME = 200
"""Characters of a file's name."""

_FORMS = '{"type": "text", "text": …} or {"type": "image_url", "image_url": {"url": …}}'


def part_text(part: object, where: str) -> str:
    """Return the text of a part that is no image; it may be empty.

    Args:
        where: the part's place, such as `content[1]`, with which a complaint begins.

    Raises:
        ArgumentError: it is no text.
    """
    if isinstance(part, str):
        return part
    fields: dict[str, object] = part if isinstance(part, dict) else {}
    match fields.get("type", "text"):
        case "text" | "input_text" | "output_text" | "text-plain":
            said = fields.get("text")
        case "refusal":
            said = fields.get("refusal")
        case "file" | "input_file":
            file = fields.get("file")
            return _file_text(file, f"{where}.file") if isinstance(file, dict) else _file_text(fields, where)
        case "input_audio" | "audio" | "video" | "video_url" | "input_video" as kind:
            raise ArgumentError(f"{where} is of the type {kind}: an agent takes text and images; remove it")
        case _:
            said = None
    if isinstance(said, str):
        return said
    raise ArgumentError(f"{where} must be {_FORMS}, not {shortened(repr(part))}")


def _file_text(file: Mapping[str, object], where: str) -> str:
    """The text of a file, behind its name."""
    match file:
        case {"text": str() as text}:
            pass
        case {"file_data": str() as data}:
            text = _decoded(data, f"{where}.file_data")
        case {"file_id": _}:
            raise ArgumentError(f"{where}.file_id is of a file that is not here: send its text")
        case _:
            raise ArgumentError(f"{where} is a file without text: send it as a part of the type text")
    name = file.get("filename")
    if name is None or name == "":
        return text
    if not isinstance(name, str):
        raise ArgumentError(f"{where}.filename must be a string, not {kind_of(name)}")
    return f"{shortened(' '.join(name.split()), _LONGEST_NAME)}:\n{text}"


def _decoded(data: str, where: str) -> str:
    """The text in a data URL."""
    if (found := _DATA_URL.fullmatch(data)) is None:
        raise ArgumentError(
            f"{where} must be a data URL, as data:text/plain;base64,…; or send the text itself"
        )
    kind, *options = found[1].split(";")
    if not _TEXT_TYPE.fullmatch(kind):
        raise ArgumentError(f"{where} is of the type {quoted(kind)}, which is no text: send the text in it")
    if "base64" not in options:
        raise ArgumentError(f"{where} must be in base64, as data:{kind};base64,…")
    try:
        return base64.b64decode(found[2], validate=True).decode()
    except (binascii.Error, ValueError):  # UnicodeDecodeError is one
        raise ArgumentError(f"{where} must be text in UTF-8, in base64") from None
