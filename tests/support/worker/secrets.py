"""Looks for secrets where none may be: as they are, in JSON, YAML, HTML and URLs, and in base64 at any offset.

Pure. Knows encodings; nothing of workers.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_plus
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def leaked(haystack: str | bytes, secrets: Iterable[str]) -> list[str]:
    """The secrets that the haystack holds in any form."""
    data = haystack.encode() if isinstance(haystack, str) else haystack
    return [secret for secret in secrets if any(form in data for form in _forms(secret))]


def _forms(secret: str) -> Iterator[bytes]:
    plain = secret.encode()
    yield plain
    written = {json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], repr(secret)[1:-1]}
    written |= {
        quote(secret),
        quote(secret, safe=""),
        quote_plus(secret),
        escape(secret),
        secret.replace("'", "''"),
    }
    yield from (text.encode() for text in written)
    for offset in range(3):
        # The first and last characters of base64 depend on what surrounds the secret.
        encoded = base64.b64encode(bytes(offset) + plain)[:-4].rstrip(b"=")
        yield encoded[4 if offset else 0 :]
    for offset in range(3):
        encoded = base64.urlsafe_b64encode(bytes(offset) + plain)[:-4].rstrip(b"=")
        yield encoded[4 if offset else 0 :]
