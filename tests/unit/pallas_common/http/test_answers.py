"""What headers of requests ask of answers."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from pallas_common.http.answers import accepts_gzip, has_etag


@pytest.mark.parametrize(
    ("accept_encoding", "accepted"),
    [
        ("", False),
        ("gzip", True),
        ("deflate, GZIP;q=0.5", True),
        ("gzip;q=0", False),
        ("*", True),
        ("br", False),
        ("gzip;q=0, *", False),
        ("gzip;q=x", False),
    ],
)
def test_gzip_is_for_those_who_accept_it(accept_encoding: str, accepted: bool) -> None:
    assert accepts_gzip(accept_encoding) is accepted


@pytest.mark.parametrize(
    ("lines", "held"),
    [
        ([], None),
        (['"a"'], True),
        (['W/"a"'], True),
        (["*"], True),
        (['"b"', '"c", "a"'], True),
        (['"b"'], False),
        (["a"], False),
    ],
)
def test_a_validator_is_found_among_all_that_the_client_holds(lines: list[str], held: bool | None) -> None:
    headers = [(b"if-none-match", line.encode()) for line in lines]
    assert has_etag(Request({"type": "http", "headers": headers}), '"a"') is held
