"""What goes out of conversations as JSON, whatever models and workers have put into them. Pure.

Python reads and holds more than JSON has (RFC 8259): numbers that are none, and half of a surrogate pair. A client that
keeps to the standard must be able to read what one model has said once.
"""

from __future__ import annotations

import json
import math
from typing import Any

from starlette.responses import JSONResponse

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class Document(JSONResponse):
    """A document of a conversation as an answer."""

    def render(self, content: Any) -> bytes:
        """The body."""
        return json_bytes(json_text(content))


def json_text(document: Any) -> str:
    """The document as JSON on one line; null stands for what is no number."""
    try:
        return _encode(document)
    except ValueError:
        return _encode(_finite(document))


def json_bytes(text: str) -> bytes:
    """In UTF-8; a question mark stands for half of a surrogate pair."""
    return text.encode("utf-8", "replace")


def _finite(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return None
        case dict():
            return {key: _finite(each) for key, each in value.items()}
        case list() | tuple():
            return [_finite(each) for each in value]
    return value
