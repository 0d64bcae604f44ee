"""Compressed bodies: what is inflated, and what is refused before it becomes large."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
import zlib

import pytest

from pallas_common.http.request_body import (
    BodyTooLargeError,
    EncodingError,
    UnknownEncodingError,
    inflated,
)

TEXT = b'{"a": "' + b"x" * 200_000 + b'"}'
LIMIT = 1024 * 1024


def read(body: bytes, encoding: str, limit: int = LIMIT) -> bytes:
    return asyncio.run(inflated(body, encoding, limit))


@pytest.mark.parametrize("encoding", ["", "identity", " Identity "])
def test_a_body_without_an_encoding_is_as_it_came(encoding: str) -> None:
    assert read(b"\x1f\x8b", encoding) == b"\x1f\x8b"


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "GZIP"])
def test_gzip_is_inflated_all_of_its_members(encoding: str) -> None:
    assert read(gzip.compress(TEXT) + gzip.compress(b"more"), encoding) == TEXT + b"more"
    assert read(b"", encoding) == b""


def test_there_are_no_more_members_than_a_client_has_reason_to_send() -> None:
    assert read(gzip.compress(b"x") * 100, "gzip") == b"x" * 100
    with pytest.raises(EncodingError, match="more than 100 members"):
        read(gzip.compress(b"") * 101, "gzip")


def test_what_is_exactly_as_large_as_it_may_be() -> None:
    assert read(gzip.compress(TEXT), "gzip", len(TEXT)) == TEXT
    for body in (gzip.compress(TEXT), gzip.compress(b"") + gzip.compress(TEXT)):
        with pytest.raises(BodyTooLargeError):
            read(body, "gzip", len(TEXT) - 1)


def test_what_would_become_very_large_is_refused_before_it_is() -> None:
    bomb = gzip.compress(bytes(512 * 1024 * 1024), 1)
    tracemalloc.start()
    try:
        with pytest.raises(BodyTooLargeError):
            read(bomb, "gzip")
        assert tracemalloc.get_traced_memory()[1] < 8 * LIMIT
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "body", [b"{}", gzip.compress(TEXT)[:-1], gzip.compress(TEXT) + b"x", zlib.compress(b"{}")]
)
def test_what_is_no_gzip(body: bytes) -> None:
    with pytest.raises(EncodingError, match="no gzip"):
        read(body, "gzip")


@pytest.mark.parametrize("encoding", ["br", "gzip, gzip", "zstd", "deflate", "\x00"])
def test_an_encoding_that_is_not_known(encoding: str) -> None:
    with pytest.raises(UnknownEncodingError, match="send gzip, or nothing"):
        read(b"", encoding)
