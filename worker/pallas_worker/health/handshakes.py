"""The first request to an MCP server in either protocol era, and the reading of its answer.

Knows the shapes of MCP over streamable HTTP; must not know which server is asked, nor what the answer means
for the agent.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY
from mcp_types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS

from pallas_common import __version__

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx

Era = Literal["modern", "legacy"]
"""`server/discover` (revision 2026-07-28 and later), or `initialize` (up to 2025-11-25)."""

MAX_ANSWER = 1 << 20
"""Bytes of an answer that are read before it is given up as no answer."""

_CLIENT = {"name": "pallas-probe", "version": __version__}
_ACCEPT = {"accept": "application/json, text/event-stream"}


class AnswerError(Exception):
    """The answer is not a result. The message is one short line without the server's own words."""


def other(era: Era) -> Era:
    """The other era."""
    return "legacy" if era == "modern" else "modern"


def first_request(era: Era) -> tuple[dict[str, str], dict[str, Any]]:
    """Headers and JSON body of an era's first request (MCP 2026-07-28 basic; 2025-11-25 lifecycle)."""
    if era == "legacy":
        params: dict[str, Any] = {
            "protocolVersion": LATEST_HANDSHAKE_VERSION,
            "capabilities": {},
            "clientInfo": _CLIENT,
        }
        return _ACCEPT, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    meta = {
        PROTOCOL_VERSION_META_KEY: LATEST_MODERN_VERSION,
        CLIENT_INFO_META_KEY: _CLIENT,
        CLIENT_CAPABILITIES_META_KEY: {},
    }
    headers = {"mcp-protocol-version": LATEST_MODERN_VERSION, "mcp-method": "server/discover"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": meta}}
    return _ACCEPT | headers, body


def agreed_version(era: Era, result: dict[str, Any]) -> str:
    """The protocol version on which the result of an era's first request agrees.

    Raises:
        AnswerError: there is none.
    """
    if era == "legacy":
        if isinstance(version := result.get("protocolVersion"), str):
            return version
        raise AnswerError("answers initialize without a protocol version")
    offered = result.get("supportedVersions")
    for version in reversed(MODERN_PROTOCOL_VERSIONS):
        if isinstance(offered, list) and version in offered:
            return version
    raise AnswerError("speaks no protocol version that is known here")


async def read_result(response: httpx.Response) -> dict[str, Any]:
    """The JSON-RPC result in a streamed HTTP answer, which may be JSON or an event stream.

    An event stream is read up to the first response, and not to its end.

    Raises:
        AnswerError: the status is not 200, or there is no result.
        httpx.HTTPError: the connection broke off.
    """
    if response.status_code != 200:
        raise AnswerError(f"HTTP {response.status_code}")
    content_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type == "application/json":
        return _result(await _read(response))
    if content_type == "text/event-stream":
        async for data in _events(response):
            if data and ((message := _parse(data)).keys() & {"result", "error"}):
                return _result(message)
    raise AnswerError("does not answer as an MCP server")


async def _read(response: httpx.Response) -> dict[str, Any]:
    chunks, size = [], 0
    async for chunk in response.aiter_bytes():
        chunks.append(chunk)
        if (size := size + len(chunk)) > MAX_ANSWER:
            raise AnswerError("the answer is too long")
    return _parse(b"".join(chunks))


async def _events(response: httpx.Response) -> AsyncIterator[str]:
    """The data of each event of a stream (WHATWG HTML, "Server-sent events")."""
    data: list[str] = []
    size = 0
    async for line in response.aiter_lines():
        if (size := size + len(line)) > MAX_ANSWER:
            raise AnswerError("the answer is too long")
        field, _, value = line.partition(":")
        if field == "data":
            data.append(value.removeprefix(" "))
        elif not line and data:
            yield "\n".join(data)
            data = []


def _parse(text: bytes | str) -> dict[str, Any]:
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        raise AnswerError("the answer is not JSON") from None
    if not isinstance(message, dict):
        raise AnswerError("the answer is not a JSON-RPC message")
    return message


def _result(message: dict[str, Any]) -> dict[str, Any]:
    result, error = message.get("result"), message.get("error")
    if isinstance(result, dict):
        return result
    code = error.get("code") if isinstance(error, dict) else None
    raise AnswerError(f"JSON-RPC error {code}" if isinstance(code, int) else "the answer has no result")
