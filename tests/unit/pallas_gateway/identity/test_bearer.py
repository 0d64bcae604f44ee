"""One Authorization header, read strictly."""

from __future__ import annotations

import pytest

from pallas_gateway.identity.bearer import LONGEST, bearer_token
from pallas_gateway.identity.errors import InvalidRequestError, InvalidTokenError, MissingTokenError


@pytest.mark.parametrize("value", [b"Bearer abc-._~+/=", b"bearer abc-._~+/=", b"BEARER   abc-._~+/=  "])
def test_a_token_is_read(value: bytes) -> None:
    assert bearer_token([(b"host", b"x"), (b"authorization", value)]) == "abc-._~+/="


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"authorization", b"Basic abc")],
        [(b"authorization", b"")],
        [(b"x-authorization", b"Bearer abc")],
    ],
)
def test_there_may_be_none(headers: list[tuple[bytes, bytes]]) -> None:
    with pytest.raises(MissingTokenError):
        bearer_token(headers)


@pytest.mark.parametrize(
    ("token", "why"),
    [
        (b"", "is empty"),
        (b"a" * (LONGEST + 1), f"has {LONGEST + 1} bytes, of {LONGEST} that are allowed"),
        *((token, "has characters") for token in (b"a b", b"a\xff", b"=a", b"a,b", b"a\x00", b'"a"', b"a=b")),
    ],
)
def test_what_no_token_can_be_is_none_and_it_is_said_why(token: bytes, why: str) -> None:
    with pytest.raises(InvalidTokenError, match=why):
        bearer_token([(b"authorization", b"Bearer " + token)])


def test_a_token_with_many_groups_fits() -> None:
    assert bearer_token([(b"authorization", b"Bearer " + b"a" * 32 * 1024)])


def test_two_headers_are_refused_even_if_they_are_the_same() -> None:
    with pytest.raises(InvalidRequestError):
        bearer_token([(b"authorization", b"Bearer abc")] * 2)
