"""JSON-RPC 2.0 as bytes: what comes in is read within bounds, what goes out is written. Pure.

What comes in is hostile: its size was bounded before, its depth and the number of its values are by `json_bounds`, the
length of its id is here. A batch is refused (no revision since 2025-06-18 has them).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pallas_common.http.json_bounds import TooDeepError, TooManyValuesError, parse_bounded
from pallas_common.secrets.tokens import without_tokens
from pallas_gateway.mcp.errors import INVALID_REQUEST, PARSE_ERROR
from pallas_gateway.mcp.surface import McpError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pallas_gateway.mcp.surface import Json

LONGEST_ID = 256
LONGEST_METHOD = 128
LARGEST_ID = 2**63

PING = b": ping\n\n"
"""A comment of an event stream, which no client sees: it keeps proxies from closing what is silent."""


class Message(NamedTuple):
    """One message of a client."""

    kind: Literal["request", "notification", "response"]
    method: str
    """Empty for a response."""
    params: Mapping[str, Any]
    id: int | str | None
    """Of a request."""


def read_message(body: bytes) -> Message:
    """The message that a body is.

    Raises:
        McpError: it is none; `data` is None, and no id can be told.
    """
    document = _read(body)
    if isinstance(document, list):
        raise McpError(INVALID_REQUEST, "batches are not part of this protocol: send one message a request")
    if not isinstance(document, dict) or document.get("jsonrpc") != "2.0":
        raise McpError(INVALID_REQUEST, 'not a message of JSON-RPC: an object with "jsonrpc": "2.0"')
    method = document.get("method")
    if method is None and "id" in document and ("result" in document) != ("error" in document):
        return Message("response", "", {}, None)
    if not isinstance(method, str) or not 0 < len(method) <= LONGEST_METHOD:
        raise McpError(INVALID_REQUEST, f"method: has to be a string of at most {LONGEST_METHOD} characters")
    params = document.get("params", {})
    if not isinstance(params, dict):
        raise McpError(INVALID_REQUEST, "params: has to be an object")
    if "id" not in document:
        return Message("notification", method, params, None)
    return Message("request", method, params, _read_id(document["id"]))


def _read_id(found: object) -> int | str:
    if isinstance(found, str) and len(found) <= LONGEST_ID:
        return found
    if isinstance(found, int) and not isinstance(found, bool) and -LARGEST_ID <= found < LARGEST_ID:
        return found
    raise McpError(
        INVALID_REQUEST, f"id: has to be a string of at most {LONGEST_ID} characters or an integer of 64 bits"
    )


def _read(body: bytes) -> object:
    try:
        return parse_bounded(body)
    except TooManyValuesError as error:
        raise McpError(INVALID_REQUEST, f"{error}: send less in one request") from None
    except TooDeepError as error:
        raise McpError(INVALID_REQUEST, str(error)) from None
    except ValueError as error:
        # Of a text that is large the position says enough, and it may hold what nobody should see.
        place = f", at byte {error.pos}" if isinstance(error, json.JSONDecodeError) else ""
        raise McpError(PARSE_ERROR, f"the body is not JSON in UTF-8{place}") from None


def write(document: Json) -> bytes:
    """As JSON, without spaces and in ASCII: what came as half of a surrogate pair goes out as it came."""
    return json.dumps(document, separators=(",", ":")).encode()


def answer(request_id: int | str, result: Json) -> bytes:
    """The response with a result."""
    return write({"jsonrpc": "2.0", "id": request_id, "result": result})


def failure(request_id: int | str | None, error: McpError) -> bytes:
    """The response with an error, which does not repeat a token that came in the wrong place."""
    said: Json = {"code": error.code, "message": without_tokens(str(error))}
    if error.data is not None:
        said["data"] = json.loads(without_tokens(json.dumps(error.data)))
    return write({"jsonrpc": "2.0", "id": request_id, "error": said})


def notification(method: str, params: Json) -> bytes:
    """A notification; without `params` where there are none."""
    return write({"jsonrpc": "2.0", "method": method} | ({"params": params} if params else {}))


def event(message: bytes) -> bytes:
    """A message as one event of a stream. Line breaks of JSON are spaces; in its strings there are none."""
    if b"\n" in message or b"\r" in message:
        message = message.replace(b"\r", b" ").replace(b"\n", b" ")
    return b"event: message\ndata: " + message + b"\n\n"
