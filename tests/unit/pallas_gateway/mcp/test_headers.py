"""Values of headers that cannot be written as they are."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pallas_gateway.mcp.headers import decode_header_value


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("search", "search"),
        ("=?base64?c2VhcmNo?=", "search"),
        ("=?base64?w6l0w6k=?=", "été"),
        ("=?base64??=", ""),
        ("=?base64?c2VhcmNo", "=?base64?c2VhcmNo"),
        ("=?base64?c2VhcmN?=", None),
        ("=?base64?c2V hcmNo?=", None),
        ("=?base64?w6l0w6l=?=", None),
        ("=?base64?/w==?=", None),
        ("=?base64?été?=", None),
    ],
)
def test_what_is_no_canonical_base64_of_text_means_nothing(said: str, meant: str | None) -> None:
    assert decode_header_value(said) == meant


def test_the_gateway_starts_without_the_sdk() -> None:
    """Which takes half a second of a start, and 40 MiB."""
    code = "import sys, pallas_gateway.process.serve; sys.exit('mcp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
