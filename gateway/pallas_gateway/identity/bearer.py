"""The bearer token of a request: one Authorization header, read strictly (RFC 6750, section 2.1). Pure.

Neither a form field nor the query is looked at: both end in logs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pallas_gateway.identity.errors import InvalidRequestError, InvalidTokenError, MissingTokenError

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST = 32 * 1024
"""Bytes of a token; a signed one of an issuer has some hundred, with 150 groups over 8,000."""

_TOKEN = re.compile(rb"[A-Za-z0-9._~+/-]+=*")


def bearer_token(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The token of a request's headers, their names in lower case as ASGI has them.

    Raises:
        MissingTokenError: no Authorization header, or one of another scheme.
        InvalidRequestError: two of them.
        InvalidTokenError: a text that no token can be.
    """
    found: bytes | None = None
    for name, value in headers:
        if name == b"authorization":
            if found is not None:
                raise InvalidRequestError("there are two Authorization headers; send one")
            found = value
    if found is None:
        raise MissingTokenError("a bearer token is needed: send `Authorization: Bearer <token>`")
    scheme, _, token = found.strip(b" \t").partition(b" ")
    if scheme.lower() != b"bearer":
        raise MissingTokenError("the Authorization header has another scheme than Bearer")
    token = token.strip(b" ")
    if not token:
        raise InvalidTokenError("the bearer token is empty: send `Authorization: Bearer <token>`")
    if len(token) > LONGEST:
        raise InvalidTokenError(
            f"the bearer token has {len(token)} bytes, of {LONGEST} that are allowed: have the issuer name fewer groups"
        )
    if _TOKEN.fullmatch(token) is None:
        raise InvalidTokenError(
            "the bearer token has characters that no token has: was it copied as a whole?"
        )
    return token.decode("ascii")
