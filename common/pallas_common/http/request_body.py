"""Bodies of requests that come compressed: inflated within a bound, beside the loop where they are not small.

Knows Content-Encoding (RFC 9110, 8.4); nothing of what is in a body.
"""

from __future__ import annotations

import asyncio
import zlib

from pallas_common.problems import quoted

_GZIP = ("gzip", "x-gzip")
_SMALL = 4096
"""Bytes that are inflated at once: to some 4 MB at most, in a few milliseconds."""
_MOST_MEMBERS = 100
"""Of a body of gzip: behind each one the rest is copied, so that many empty ones would take minutes."""
_WITH_GZIP_HEAD = 16 + zlib.MAX_WBITS


class EncodingError(ValueError):
    """A body is not in the encoding that its request says. Its text is for the client."""


class UnknownEncodingError(EncodingError):
    """No body in this encoding is read here."""


class BodyTooLargeError(ValueError):
    """A body has more bytes than it may have, inflated."""


async def inflated(body: bytes, encoding: str, limit: int) -> bytes:
    """Return the body without its encoding.

    Args:
        encoding: the header Content-Encoding; empty where there is none.
        limit: bytes that it may have.

    Raises:
        UnknownEncodingError: it is another one than gzip.
        EncodingError: the body is not gzip, or not all of it.
        BodyTooLargeError: it has more bytes.
    """
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return body
    if encoding not in _GZIP:
        raise UnknownEncodingError(
            f"the header Content-Encoding has {quoted(encoding)}; send gzip, or nothing"
        )
    if len(body) <= _SMALL:
        return _inflated(body, limit)
    return await asyncio.to_thread(_inflated, body, limit)


def _inflated(body: bytes, limit: int) -> bytes:
    found = bytearray()
    try:
        for _ in range(_MOST_MEMBERS):
            if not body:
                return bytes(found)
            reading = zlib.decompressobj(_WITH_GZIP_HEAD)
            found += reading.decompress(body, limit + 1 - len(found))
            if len(found) > limit:
                raise BodyTooLargeError
            if not reading.eof:
                raise EncodingError("the body is no gzip: it breaks off")
            body = reading.unused_data
    except zlib.error as error:
        raise EncodingError(f"the body is no gzip: {error}") from None
    if body:
        raise EncodingError(f"the body has more than {_MOST_MEMBERS} members of gzip; send one")
    return bytes(found)
