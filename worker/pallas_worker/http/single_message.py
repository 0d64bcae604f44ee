"""The HTTP request around an MCP message: refused here unless it carries exactly one request or notification.

Knows HTTP and JSON-RPC; must not know tools. The SDK checks most of this as well, but with other words and codes in
each era, and in the older one it takes a request with a malformed id for a notification, and never answers it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mcp.server.streamable_http import check_accept_headers
from mcp.server.transport_security import RequestBodyLimitMiddleware, TransportSecurityMiddleware
from mcp_types import INVALID_REQUEST, PARSE_ERROR
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from pallas_common.http.json_bounds import TooManyValuesError, read_bounded
from pallas_common.protocol.mcp.lone_requests import JsonAnswer, may_stand_alone, stands_alone

if TYPE_CHECKING:
    from mcp.server.transport_security import TransportSecuritySettings
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a body is not served: a JSON-RPC error, and the id of the request if it has a usable one."""

    code: int
    message: str
    id: str | int | None = None
    status: int = 400
    """Of the HTTP response."""

    def response(self) -> Response:
        """The refusal on the wire."""
        error = {"code": self.code, "message": self.message}
        return JSONResponse({"jsonrpc": "2.0", "id": self.id, "error": error}, self.status)


_SIZE = "pallas.size"
"""Of a scope: how many bytes its body has; `Content-Length` need not say it."""


def size_of_body(scope: Scope) -> int:
    """Bytes of the body that was passed on with this scope; 0 if there was none."""
    size = scope.get(_SIZE, 0)
    return size if isinstance(size, int) else 0


def read(body: bytes) -> dict[str, object] | Refusal:
    """The one JSON-RPC request or notification that a body has to be, or what is wrong with it.

    Strict JSON: neither NaN nor a number that no double holds, nor half a surrogate pair, and UTF-8 alone.
    """
    try:
        message = read_bounded(body)
    except TooManyValuesError as error:
        return Refusal(INVALID_REQUEST, f"The body has {error}", status=413)
    except ValueError as error:
        return Refusal(PARSE_ERROR, f"Parse error: {error}")
    if not isinstance(message, dict):
        kind = "a batch" if isinstance(message, list) else "a bare value"
        return Refusal(INVALID_REQUEST, f"The body must be one JSON-RPC request or notification, not {kind}")
    identifier = message.get("id")
    usable = isinstance(identifier, str | int) and not isinstance(identifier, bool)
    mistake = _mistake(message)
    if mistake is None and "id" in message and not usable:
        mistake = "id must be a string or an integer"
    return (
        Refusal(INVALID_REQUEST, mistake, identifier if usable else None) if mistake is not None else message
    )


def _mistake(message: dict[str, object]) -> str | None:
    if message.get("jsonrpc") != "2.0":
        return 'jsonrpc must be "2.0"'
    if "method" not in message and ("result" in message or "error" in message):
        return "A response is not expected: this server asks nothing of its clients"
    if not isinstance(message.get("method"), str):
        return "method must be a string"
    if not isinstance(message.get("params"), dict | None):
        return "params must be an object"
    return None


_BOTH = b"application/json, text/event-stream"


def _unless_both_are_accepted(request: Request) -> Response | None:
    if all(check_accept_headers(request)):
        return None
    reason = "Not Acceptable: the client must accept both application/json and text/event-stream"
    return Refusal(INVALID_REQUEST, reason, status=406).response()


def _but_accept(scope: Scope) -> list[tuple[bytes, bytes]]:
    return [header for header in scope["headers"] if header[0].lower() != b"accept"]


class OneMessage:
    """Passes on what is one message for the MCP endpoint, and all that is for other paths."""

    def __init__(self, app: ASGIApp, path: str, security: TransportSecuritySettings, max_body: int) -> None:
        self._app = app
        self._path = path
        self._security = TransportSecurityMiddleware(security)
        self._read = RequestBodyLimitMiddleware(self._check_body, max_body)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != self._path:
            await self._app(scope, receive, send)
            return
        refusal = await self._check_head(Request(scope))
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        await self._read(scope, receive, send)

    async def _check_head(self, request: Request) -> Response | None:
        """Refuse by method, Content-Type and Accept, before the body is read."""
        if request.method != "POST":
            # Without sessions there is nothing to listen to or to delete.
            message = (
                f"{request.method[:20]} is not for {self._path}, which takes POST: there are no sessions here"
            )
            return PlainTextResponse(f"{message}\n", 405, {"Allow": "POST"})
        unsafe = await self._security.validate_request(request, is_post=True)
        if unsafe is not None:
            return unsafe
        return None if may_stand_alone(request.headers) else _unless_both_are_accepted(request)

    async def _check_body(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a body that is not one message; it comes as a whole."""
        message = await receive()
        if message["type"] != "http.request" or message.get("more_body"):
            return  # the client is gone
        body = message["body"]
        said = read(body)
        refusal = said.response() if isinstance(said, Refusal) else None
        request = Request(scope)
        if not isinstance(said, Refusal) and may_stand_alone(request.headers):
            if stands_alone(said["method"], said.get("params")):
                scope = {**scope, "headers": [*_but_accept(scope), (b"accept", _BOTH)]}
                send = JsonAnswer(send).send
            else:
                refusal = _unless_both_are_accepted(request)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        scope[_SIZE] = len(body)
        unread: list[Message] = [message]

        async def replay() -> Message:
            return unread.pop() if unread else await receive()

        await self._app(scope, replay, send)
