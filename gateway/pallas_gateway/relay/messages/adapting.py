"""From one era of the protocol to the other and back: only what must differ is changed. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NoReturn

from pallas_common import __version__
from pallas_common.problems import shortened
from pallas_gateway.relay.http.errors import WrongAnswerError
from pallas_gateway.relay.messages.model import Opened, ServerError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pallas_gateway.relay.messages.model import Call, Era, Json

PREFIX = "io.modelcontextprotocol/"
PROTOCOL_VERSION: Final = PREFIX + "protocolVersion"
CLIENT_INFO: Final = PREFIX + "clientInfo"
CLIENT_CAPABILITIES: Final = PREFIX + "clientCapabilities"
SERVER_INFO: Final = PREFIX + "serverInfo"
LOG_LEVEL: Final = PREFIX + "logLevel"
_OF_REQUESTS = frozenset({PROTOCOL_VERSION, CLIENT_INFO, CLIENT_CAPABILITIES, LOG_LEVEL})

CLIENT = {"name": "pallas-gateway", "version": __version__}

MOST_CONTAINERS = 1_000_000
"""Brackets and braces in an answer, those in its texts included: two bytes can become an object of a hundred."""
LONGEST_MESSAGE = 4_000
"""Characters of an error's message."""

_RESOURCE_NOT_FOUND = -32002
"""Of older servers; must not be sent any more, which is -32602 now."""
_INVALID_PARAMS = -32602
_BAGGAGE = "baggage"
"""Of `_meta`: whatever a client says, and servers are strangers."""


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse)
"""Strict, because what is read goes on as it came."""


def outgoing(call: Call, era: Era, version: str) -> Json:
    """The params for a server of that era and version."""
    params = dict(call.params)
    params.pop("task", None)  # a task of 2025-11-25 would be the gateway's own, and nobody could ask for it
    if era == "stateless":
        meta = params.get("_meta")
        meta = dict(meta) if isinstance(meta, dict) else {}
        if call.era != "stateless":
            meta[CLIENT_INFO] = CLIENT
            meta[CLIENT_CAPABILITIES] = {}
        meta[PROTOCOL_VERSION] = version
        meta.setdefault(CLIENT_CAPABILITIES, {})
        params["_meta"] = meta
    elif call.era == "stateless":
        params.pop("inputResponses", None)
        params.pop("requestState", None)
        if isinstance(meta := params.get("_meta"), dict):
            kept = {name: value for name, value in meta.items() if name not in _OF_REQUESTS}
            if kept:
                params["_meta"] = kept
            else:
                del params["_meta"]
    meta = params.get("_meta")
    if call.trace or (isinstance(meta, dict) and _BAGGAGE in meta):
        meta = meta if isinstance(meta, dict) else {}
        params["_meta"] = {name: value for name, value in meta.items() if name != _BAGGAGE} | dict(call.trace)
    return params


def own_params(params: Json, era: Era, version: str) -> Json:
    """The params of a request of our own."""
    if era != "stateless":
        return params
    return params | {
        "_meta": {PROTOCOL_VERSION: version, CLIENT_INFO: CLIENT, CLIENT_CAPABILITIES: {}},
    }


def opened(era: Era, version: str, result: Json) -> Opened:
    """What a server says of itself in the result of `initialize` or `server/discover`."""
    meta = result.get("_meta")
    info = (
        result.get("serverInfo") if era == "sessions" or not isinstance(meta, dict) else meta.get(SERVER_INFO)
    )
    capabilities, instructions = result.get("capabilities"), result.get("instructions")
    return Opened(
        era=era,
        version=version,
        capabilities=capabilities if isinstance(capabilities, dict) else {},
        info=info if isinstance(info, dict) else {},
        instructions=instructions if isinstance(instructions, str) else None,
    )


def parse(data: bytes) -> Json:
    """A message.

    Raises:
        WrongAnswerError: it is none.
    """
    if data.count(b"{") + data.count(b"[") > MOST_CONTAINERS:
        raise WrongAnswerError("the answer has too many values")
    try:
        message = _DECODER.decode(data.decode())
    except (ValueError, RecursionError):
        raise WrongAnswerError("the answer is no JSON") from None
    if not isinstance(message, dict):
        raise WrongAnswerError("the answer is no message of JSON-RPC")
    return message


def is_response(message: Mapping[str, Any]) -> bool:
    """Whether it answers a request."""
    return "method" not in message and ("result" in message or "error" in message)


def has_outcome(message: Mapping[str, Any]) -> bool:
    """Whether a response says a result, or an error as JSON-RPC does."""
    return isinstance(message.get("result"), dict) or isinstance(message.get("error"), dict)


def result_of(message: Mapping[str, Any]) -> Json:
    """The result of a response.

    Raises:
        ServerError: it says an error.
        WrongAnswerError: it says neither.
    """
    error = message.get("error")
    if isinstance(error, dict):
        code = error.get("code")
        text = error.get("message")
        raise ServerError(
            code if isinstance(code, int) and not isinstance(code, bool) else -32603,
            shortened(text, LONGEST_MESSAGE) if isinstance(text, str) else "the server says no reason",
            error.get("data"),
        )
    result = message.get("result")
    if not isinstance(result, dict):
        raise WrongAnswerError("the answer has no result")
    return result


def answered(message: Json, call: Call, sent: int | str, era: Era) -> tuple[Json, bool]:
    """The response for the client of `call` from one of a server of that era, and whether it is the same as it came.

    Args:
        sent: the id by which the server was asked.

    Raises:
        WrongAnswerError: it answers something else, or the client cannot be told what it says.
    """
    error = message.get("error")
    id_ = message.get("id")
    if (id_ != sent or type(id_) is not type(sent)) and not (id_ is None and error is not None):
        raise WrongAnswerError("the answer has another id than the request")
    same = id_ == call.id
    if not same:
        message = message | {"id": call.id}
    if isinstance(error, dict):
        if error.get("code") == _RESOURCE_NOT_FOUND:
            message = message | {"error": error | {"code": _INVALID_PARAMS}}
            same = False
        return message, same
    result = message.get("result")
    if not isinstance(result, dict):
        raise WrongAnswerError("the answer has no result")
    if era == call.era:
        return message, same
    if era == "stateless":
        if result.get("resultType", "complete") != "complete":
            raise WrongAnswerError(
                "the server asks the client for something, which takes a client that speaks MCP 2026-07-28"
            )
        result = {
            name: value for name, value in result.items() if name not in {"resultType", "ttlMs", "cacheScope"}
        }
    else:
        result = {"resultType": "complete"} | result
        if call.method == "resources/read":
            result = {"ttlMs": 0, "cacheScope": "private"} | result
    return message | {"result": result}, False


def is_failure(message: Mapping[str, Any]) -> bool:
    """Whether a response says that it went wrong."""
    if "error" in message:
        return True
    result = message.get("result")
    return isinstance(result, dict) and result.get("isError") is True


def dumped(message: Mapping[str, Any]) -> bytes:
    """A message as bytes."""
    return json.dumps(message, separators=(",", ":")).encode()
