"""One small image of each type that clients may send, in base64: enough of it to be told by its first bytes."""

from __future__ import annotations

import base64

CONTENT = {
    "image/png": b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
    "image/jpeg": b"\xff\xd8\xff\xe0\x00\x10JFIF" + bytes(range(255, -1, -1)),
    "image/gif": b"GIF89a" + bytes(64),
    "image/webp": b"RIFF\x24\x00\x00\x00WEBPVP8 " + bytes(range(100)),
}
BASE64 = {type_: base64.b64encode(content).decode() for type_, content in CONTENT.items()}
PNG = BASE64["image/png"]
