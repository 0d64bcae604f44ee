"""What the headers of a request have to say, in both eras. Pure.

2026-07-28 mirrors the method and the name of what is called in headers, for those between client and server who do not
read bodies; a request whose headers and body disagree is refused, because the two would take it for different things.
"""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any

from pallas_gateway.mcp.errors import HEADER_MISMATCH, INVALID_PARAMS, INVALID_REQUEST, UNSUPPORTED_VERSION
from pallas_gateway.mcp.surface import McpError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pallas_gateway.mcp.surface import Json
    from pallas_gateway.mcp.wire import Message

SESSION_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Revisions with `initialize`, oldest first."""
STATELESS_VERSIONS = ("2026-07-28",)
ASSUMED_VERSION = "2025-03-26"
"""Of a request in a session that says none (2025-11-25, Protocol Version Header)."""

VERSION = "mcp-protocol-version"
SESSION = "mcp-session-id"
METHOD = "mcp-method"
NAME = "mcp-name"

META_VERSION = "io.modelcontextprotocol/protocolVersion"
META_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"

NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""Method → the parameter that `Mcp-Name` mirrors."""

SINGLE = frozenset(
    {VERSION, SESSION, METHOD, NAME, "content-type", "content-length", "last-event-id", "authorization"}
)
"""Headers of which a second one would be read by some and not by others."""

PARAMETER = "mcp-param-"
"""What the name of a header begins with that mirrors an argument."""

_ENCODED = "=?base64?"
_PLAIN = re.compile(r"[\x20-\x7e]*")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
"""What the name of a header may be (RFC 9110, section 5.6.2); a server says the end of it."""
_DECIMAL = re.compile(r"-?[0-9]{1,400}(\.0+)?")

SECRET = frozenset({"authorization", "cookie", "proxy-authorization"})
"""Headers that end here: nobody further on gets them."""


class HttpError(Exception):
    """A request is refused before it is one of JSON-RPC; `headers` go with the answer."""

    def __init__(self, status: int, message: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers


def fold(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers by name in lower case, without those that are secret; of several of one name they are joined.

    Raises:
        McpError: one of which there may be one is there twice.
    """
    folded: dict[str, str] = {}
    for name_bytes, value_bytes in raw:
        name, value = name_bytes.decode("latin-1").lower(), value_bytes.decode("latin-1")
        if name not in folded:
            folded[name] = value
        elif name in SINGLE or name.startswith("mcp-"):
            raise McpError(HEADER_MISMATCH, f"the header {name} is there more than once")
        else:
            folded[name] = f"{folded[name]}, {value}"
    for name in SECRET & folded.keys():
        del folded[name]
    return folded


def accepted(headers: Mapping[str, str]) -> tuple[bool, bool]:
    """Whether a client takes JSON, and whether it takes event streams (RFC 9110, section 12.5.1)."""
    said = headers.get("accept")
    if said is None:
        return True, True
    types = set()
    for each in said.split(","):
        kind, *parameters = (part.strip().lower() for part in each.split(";"))
        if "q=0" not in parameters:
            types.add(kind)
    return (
        not types.isdisjoint({"application/json", "application/*", "*/*"}),
        not types.isdisjoint({"text/event-stream", "text/*", "*/*"}),
    )


def check_accepts_both(headers: Mapping[str, str]) -> None:
    """Whether a POST takes whatever it may get.

    Raises:
        HttpError: 406.
    """
    if accepted(headers) != (True, True):
        raise HttpError(406, "Accept: has to list application/json and text/event-stream")


def check_brings_json(headers: Mapping[str, str]) -> None:
    """Whether a POST brings JSON.

    Raises:
        HttpError: 415.
    """
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HttpError(415, "Content-Type: has to be application/json")


def is_stateless(headers: Mapping[str, str], message: Message) -> bool:
    """Whether a message is of the era in which each request stands for itself."""
    version = headers.get(VERSION)
    if version is None:
        return message.method != "initialize" and META_VERSION in _meta(message)
    return version not in SESSION_VERSIONS


def check_version(version: str) -> None:
    """Whether a request without a session can be served.

    Raises:
        McpError: not in that revision.
    """
    if version not in STATELESS_VERSIONS:
        data = {"supported": list(STATELESS_VERSIONS), "requested": version[:64]}
        raise McpError(UNSUPPORTED_VERSION, "this revision of the protocol is not spoken here", data)


def check_lone(method: str) -> None:
    """Whether a method is answered without a session and a version.

    Raises:
        McpError: it needs one of them.
    """
    match method:
        case "resources/subscribe" | "resources/unsubscribe":
            needed = f"a session: begin with initialize, and send {SESSION}"
        case "subscriptions/listen":
            needed = f"a stream: send {VERSION}: {STATELESS_VERSIONS[-1]}, and what that revision has besides"
        case _:
            return
    raise McpError(INVALID_REQUEST, f"{method} needs {needed}", status=400)


def check_stateless(headers: Mapping[str, str], message: Message) -> str:
    """The revision of a request without a session, its headers and its `_meta` compared.

    Raises:
        McpError: they disagree, something is missing, or the revision is not spoken here.
    """
    meta = _meta(message)
    if missing := [key for key in (META_VERSION, META_CAPABILITIES) if key not in meta]:
        if (said := headers.get(VERSION)) is not None and META_VERSION in missing:
            _check_known(said)
        raise McpError(INVALID_PARAMS, f"params._meta: {', '.join(missing)} is missing")
    version = meta[META_VERSION]
    if not isinstance(version, str) or not isinstance(meta[META_CAPABILITIES], dict):
        raise McpError(INVALID_PARAMS, "params._meta: the version is a string, the capabilities an object")
    if headers.get(VERSION) != version:
        raise McpError(HEADER_MISMATCH, f"the header {VERSION} and params._meta say different revisions")
    if headers.get(METHOD) != message.method:
        raise McpError(HEADER_MISMATCH, f"the header {METHOD} and the body say different methods")
    named_by = NAMED_BY.get(message.method)
    if named_by is not None and (value := message.params.get(named_by)) is not None:
        said_name = headers.get(NAME)
        if said_name is None or decode_header_value(said_name) != value:
            raise McpError(HEADER_MISMATCH, f"the header {NAME} and params.{named_by} say different things")
    check_version(version)
    return version


def check_session_version(headers: Mapping[str, str]) -> None:
    """Whether a request in a session is of a revision that has sessions.

    Raises:
        McpError: it is not.
    """
    version = headers.get(VERSION, ASSUMED_VERSION)
    if version not in SESSION_VERSIONS:
        raise McpError(INVALID_REQUEST, f"{VERSION}: in a session it is one of {', '.join(SESSION_VERSIONS)}")


def check_parameters(headers: Mapping[str, str], schema: Json, arguments: Mapping[str, Any]) -> None:
    """Whether the `Mcp-Param-…` headers of a call say what its arguments say: both there and the same, or none.

    Args:
        schema: of the tool's input; it has `x-mcp-header` in it. One that has it where it may not be checks nothing:
            clients leave such tools out.

    Raises:
        McpError: they do not.
    """
    for path, token, kind in _mirrored(schema):
        header = f"{PARAMETER}{token.lower()}"
        said = headers.get(header)
        value = _at(arguments, path)
        text = _as_header(value)
        if said is None and text is None:
            continue
        decoded = None if said is None else decode_header_value(said)
        if decoded is None or text is None or not (decoded == text or _same_number(kind, decoded, value)):
            raise McpError(
                HEADER_MISMATCH, f"the header {header} and the argument {'.'.join(path)} say different things"
            )


def mirrored_arguments(schema: Json, arguments: Mapping[str, Any]) -> dict[str, str]:
    """The `Mcp-Param-…` headers that go with a call of a tool with that schema."""
    headers = {}
    for path, token, _ in _mirrored(schema):
        text = _as_header(_at(arguments, path))
        if text is not None:
            headers[f"Mcp-Param-{token}"] = encode_header_value(text)
    return headers


def _at(arguments: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """The argument at a path; None where there is none."""
    value: Any = arguments
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _mirrored(schema: Json) -> list[tuple[tuple[str, ...], str, str]]:
    """Path, name of the header and type of each argument that has to be mirrored (2026-07-28, Custom Headers)."""
    found: dict[str, tuple[tuple[str, ...], str, str]] = {}
    todo: list[tuple[tuple[str, ...], Any]] = [((), schema)]
    while todo:
        path, position = todo.pop()
        properties = position.get("properties")
        for name, inner in properties.items() if isinstance(properties, dict) else ():
            if not isinstance(inner, dict):
                continue
            todo.append(((*path, name), inner))
            token, kind = inner.get("x-mcp-header"), inner.get("type")
            if token is None:
                continue
            if not isinstance(token, str) or not _TOKEN.fullmatch(token) or token.lower() in found:
                return []
            if kind not in ("string", "integer", "boolean"):
                return []
            found[token.lower()] = (*path, name), token, kind
    return list(found.values())


def _as_header(value: Any) -> str | None:
    """An argument as its header has it; None for one that is not there or has no such form."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (str, int, float)) else None


def _same_number(kind: str, said: str, value: Any) -> bool:
    """Whether a header has an integer in another way of writing: `42.0` is 42."""
    if kind != "integer" or isinstance(value, bool) or not _DECIMAL.fullmatch(said):
        return False
    return isinstance(value, (int, float)) and int(said.partition(".")[0]) == value


def decode_header_value(value: str) -> str | None:
    """What a header says, which has base64 where it could not be written as it is; None for base64 that is none.

    2026-07-28, Streamable HTTP, Value Encoding: `=?base64?…?=`, of UTF-8, in its one canonical form.
    """
    if not (value.startswith(_ENCODED) and value.endswith("?=")):
        return value
    payload = value[len(_ENCODED) : -2].encode()
    try:
        decoded = base64.b64decode(payload, validate=True)
        return decoded.decode() if base64.b64encode(decoded) == payload else None
    except ValueError:
        return None


def encode_header_value(value: str) -> str:
    """The value of a header that `decode_header_value` reads as that text."""
    is_plain = _PLAIN.fullmatch(value) is not None and value == value.strip()
    if is_plain and not (value.startswith(_ENCODED) and value.endswith("?=")):
        return value
    return f"{_ENCODED}{base64.b64encode(value.encode('utf-8', 'surrogatepass')).decode()}?="


def negotiated(requested: str) -> str:
    """The revision of a session whose client asks for that one."""
    return requested if requested in SESSION_VERSIONS else SESSION_VERSIONS[-1]


def _check_known(version: str) -> None:
    """A client that asks for a revision of the future is told that first, whatever its envelope looks like."""
    if version not in SESSION_VERSIONS:
        check_version(version)


def _meta(message: Message) -> Mapping[str, Any]:
    found = message.params.get("_meta")
    return found if isinstance(found, dict) else {}
