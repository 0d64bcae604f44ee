"""Headers that mirror the body, and values of headers that cannot be written as they are."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from mcp.shared.inbound import mcp_param_headers, validate_mcp_param_headers, x_mcp_header_map

from pallas_gateway.mcp.headers import check_parameters, decode_header_value, mirrored_arguments
from pallas_gateway.mcp.surface import McpError


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


SCHEMA: dict[str, Any] = {
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
        "inner": {"properties": {"flag": {"type": "boolean", "x-mcp-header": "Flag"}}},
    }
}


@pytest.mark.parametrize(
    ("said", "arguments", "agree"),
    [
        ({}, {}, True),
        ({"region": "eu"}, {"region": "eu"}, True),
        ({"region": "=?base64?w6Q=?="}, {"region": "ä"}, True),
        ({"region": "=?base64?w6R=?="}, {"region": "ä"}, False),
        ({"region": "eu"}, {"region": "us"}, False),
        ({"region": "eu"}, {}, False),
        ({"region": "None"}, {"region": None}, False),
        ({}, {"region": "eu"}, False),
        ({}, {"region": ["eu"]}, True),
        ({"region": "['eu']"}, {"region": ["eu"]}, False),
        ({"count": "42"}, {"count": 42}, True),
        ({"count": "42.0"}, {"count": 42}, True),
        ({"count": "42"}, {"count": 42.0}, True),
        ({"count": "42.5"}, {"count": 42}, False),
        ({"count": "4.2e1"}, {"count": 42}, False),
        ({"count": "1"}, {"count": True}, False),
        ({"count": "9007199254740993"}, {"count": 9007199254740993}, True),
        ({"count": "9007199254740993"}, {"count": 9007199254740992}, False),
        ({"count": "9" * 5000}, {"count": 1}, False),
        ({"flag": "true"}, {"inner": {"flag": True}}, True),
        ({"flag": "True"}, {"inner": {"flag": True}}, False),
        ({"flag": "true"}, {"inner": "x"}, False),
    ],
)
def test_arguments_and_the_headers_that_mirror_them(
    said: dict[str, str], arguments: dict[str, Any], agree: bool
) -> None:
    headers = {f"mcp-param-{name}": value for name, value in said.items()}
    if agree:
        check_parameters(headers, SCHEMA, arguments)
    else:
        with pytest.raises(McpError, match="say different things"):
            check_parameters(headers, SCHEMA, arguments)
    # The SDK says the same.
    assert (validate_mcp_param_headers(SCHEMA, arguments, headers) is None) == agree


@pytest.mark.parametrize(
    "annotated",
    [
        {"a": {"type": "number", "x-mcp-header": "A"}},
        {"a": {"type": "string", "x-mcp-header": 1}},
        {"a": {"type": "string", "x-mcp-header": "A: x\r\nHost"}},
        {"a": {"type": "string", "x-mcp-header": "€"}},
        {"a": {"type": "string", "x-mcp-header": ""}},
        {"a": {"type": "string", "x-mcp-header": "A"}, "b": {"type": "string", "x-mcp-header": "a"}},
    ],
)
def test_a_schema_that_is_wrong_checks_nothing(annotated: dict[str, Any]) -> None:
    check_parameters({"mcp-param-a": "x"}, {"properties": annotated}, {})
    assert mirrored_arguments({"properties": annotated}, {"a": "x"}) == {}


@pytest.mark.parametrize(
    "region", ["eu", "ä", " eu", "=?base64?ZXU=?=", "", "a\nb", None, ["x"], True, 7, 1.5]
)
def test_arguments_are_mirrored_as_the_sdk_does_it(region: Any) -> None:
    arguments = {"region": region, "count": 42, "inner": {"flag": False}}
    headers = mirrored_arguments(SCHEMA, arguments)
    assert headers == mcp_param_headers(x_mcp_header_map(SCHEMA), arguments)
    check_parameters({name.lower(): value for name, value in headers.items()}, SCHEMA, arguments)
