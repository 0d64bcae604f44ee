"""Images that a message may carry: which types, how many, how large, and how the content of each type begins.

Pure. What a worker checks and what a client of ours checks before it sends; nothing of models.
"""

from __future__ import annotations

import re

MIME_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""What LLM providers take as an image; a model may take fewer."""
MAX_IMAGES = 20
"""Images of one message, be it the turn or a row of the history."""
MAX_IMAGE_BYTES = 20 * 1024 * 1024
"""Bytes of one image, decoded: the most that any of the big providers takes."""

_SIGNATURES = {
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/webp": re.compile(rb"RIFF....WEBP", re.DOTALL),
}


def image_type(content: bytes) -> str | None:
    """The type of an image by how its content begins; None if it is none of `MIME_TYPES`."""
    return next((type_ for type_, begins in _SIGNATURES.items() if begins.match(content)), None)
