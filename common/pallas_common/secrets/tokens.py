"""The text of a token, how it is made and told apart from what is none, and the digest that is stored of it. Pure.

`plls_human_<43 characters>_<6 characters>`: 256 random bits in base 62, and a checksum by which a mistyped token is
refused without a look-up and by which scanners for secrets recognise one. The checksum protects nothing.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import string
import zlib
from typing import Literal

from pallas_common.secrets.patterns import redact

_DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase
_RANDOM_BITS = 256
_RANDOM_LENGTH = 43
"""Digits of base 62 that hold so many bits."""
_CHECK_LENGTH = 6
"""Digits of base 62 that hold a CRC-32."""

_TOKEN = re.compile(
    rf"plls_(?:human|agent)_[0-9A-Za-z]{{{_RANDOM_LENGTH}}}_(?P<check>[0-9A-Za-z]{{{_CHECK_LENGTH}}})"
)


def new_token(role: Literal["human", "agent"]) -> str:
    """The text of a token that nobody has had before."""
    text = f"plls_{role}_{_base62(secrets.randbits(_RANDOM_BITS), _RANDOM_LENGTH)}"
    return f"{text}_{_checksum(text)}"


def is_token(text: str) -> bool:
    """Whether the text has the form of a token and its checksum is right; says nothing of whether it counts."""
    match = _TOKEN.fullmatch(text)
    return match is not None and match["check"] == _checksum(text[: match.start("check") - 1])


def token_digest(text: str) -> str:
    """What is stored of a token: its SHA-256, hexadecimal. No slow hash is needed for what is random throughout."""
    return hashlib.sha256(text.encode()).hexdigest()


def without_tokens(text: str) -> str:
    """The text without whatever looks like a token, for errors that quote what a caller has sent."""
    return redact(text, ("pallas",)) if "plls_" in text.lower() else text


def _checksum(text: str) -> str:
    return _base62(zlib.crc32(text.encode()), _CHECK_LENGTH)


def _base62(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        number, digit = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits))
