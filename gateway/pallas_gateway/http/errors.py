"""Refusals over HTTP: bodies of errors, and the challenges of RFC 6750 and RFC 9728.

`/api/v1` answers `{"error": {"type", "message", "field"?}}`, and `/v1` as OpenAI does. Paths of MCP answer an error of
JSON-RPC, whatever the status, for clients show the text of nothing else; its id is null, as the body is not read.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
from typing import TYPE_CHECKING

from starlette.responses import Response

from pallas_common.logs.setup import get_logger
from pallas_common.secrets.tokens import without_tokens
from pallas_gateway.access.audit import AuditUnavailableError
from pallas_gateway.access.limits import LimitExceededError
from pallas_gateway.http.places import place_of
from pallas_gateway.identity.errors import (
    AuthenticationError,
    AuthenticationUnavailableError,
    InvalidRequestError,
    InvalidTokenError,
    MalformedRecordError,
    MissingTokenError,
    TooManyUnknownError,
)
from pallas_gateway.mcp.errors import (
    AGENT_NOT_FOUND,
    INSUFFICIENT_SCOPE,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    LIMIT_EXCEEDED,
    UNAUTHENTICATED,
)
from pallas_gateway.mcp.surface import InsufficientScopeError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Send

HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
"""Of every answer that may hold what not everybody may see."""

_CODES = {401: UNAUTHENTICATED, 403: INSUFFICIENT_SCOPE, 404: AGENT_NOT_FOUND, 429: LIMIT_EXCEEDED}
"""HTTP status → code of JSON-RPC; of others, the standard's for a request that is wrong, or for our own failure."""

OPENAI = "/v1/"
"""Where the paths of OpenAI's API begin."""
_OPENAI_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}

LAST_WORDS = 0.5
"""Seconds."""

_log = get_logger("pallas.gateway.http")


class ApiError(Exception):
    """A request to `/api/v1` is refused.

    Args:
        status: of HTTP.
        type: one word for programs: `not_found`, `invalid`, `conflict`.
        message: for people: what is wrong and what to do.
        field: of the request's body or query, where it is one.
        headers: of the answer.
    """

    def __init__(
        self,
        status: int,
        type: str,  # noqa: A002 - its name there
        message: str,
        *,
        field: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.type = type
        self.field = field
        self.headers = headers


def error(
    path: str,
    status: int,
    type: str,  # noqa: A002 - its name in the answer
    message: str,
    *,
    field: str | None = None,
    headers: Mapping[str, str] | None = None,
    data: Mapping[str, object] | None = None,
) -> Response:
    """An answer that says what is wrong.

    Args:
        path: that was asked; below `/mcp` the body is an error of JSON-RPC, below `/v1` OpenAI's.
        data: of an error of JSON-RPC.
    """
    message, field = without_tokens(message), field and without_tokens(field)
    body: dict[str, object]
    if path.startswith(OPENAI):
        kind = _OPENAI_TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
        body = {"error": {"message": message, "type": kind, "param": field, "code": type}}
    elif not (path == "/mcp" or path.startswith("/mcp/")):
        body = {"error": {"type": type, "message": message}}
        if field is not None:
            body = {"error": {"type": type, "message": message, "field": field}}
    else:
        code = _CODES.get(status, INVALID_REQUEST if status < 500 else INTERNAL_ERROR)
        fields = {"code": code, "message": message, "data": {"type": type, **(data or {})}}
        body = {"jsonrpc": "2.0", "id": None, "error": fields}
    return Response(
        json.dumps(body).encode(), status, {**HEADERS, **(headers or {})}, media_type="application/json"
    )


CUT_OFF = "the answer was cut off: the gateway is being restarted, or the token counts no more"


async def last_words(send: Send, event: bytes) -> None:
    """Send the last event of a stream whose request is being cancelled, if its client takes it at once.

    Without it some clients would take what has come for the whole answer.
    """
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(LAST_WORDS):
            await send({"type": "http.response.body", "body": event, "more_body": True})


class Refusals:
    """Answers to requests that are not let in.

    Args:
        public_url: by which clients reach the gateway.
    """

    def __init__(self, public_url: str) -> None:
        self._url = public_url.rstrip("/")

    def of(self, raised: Exception, path: str) -> Response:
        """The answer to a request at `path` that has raised this; what is our fault is for the log alone."""
        match raised:
            case AuthenticationError():
                return self._unknown(raised, path)
            case InsufficientScopeError():
                challenge = self._challenge(path, "insufficient_scope", str(raised), str(raised.permission))
                return error(path, 403, "insufficient_scope", str(raised), headers=challenge)
            case LimitExceededError():
                return error(
                    path,
                    429,
                    "limit_exceeded",
                    str(raised),
                    headers={"retry-after": str(max(1, math.ceil(raised.retry_after)))},
                    data={"limit": raised.kind, "retry_after_ms": math.ceil(raised.retry_after * 1000)},
                )
            case AuditUnavailableError():
                return error(path, 503, "audit_unavailable", str(raised), headers={"retry-after": "5"})
            case ApiError():
                return error(
                    path, raised.status, raised.type, str(raised), field=raised.field, headers=raised.headers
                )
        _log.error(f"a request to {path} has failed: {raised!r}", exc_info=raised)
        return error(path, 500, "internal", "the gateway has failed; its log says why")

    def _unknown(self, raised: AuthenticationError, path: str) -> Response:
        match raised:
            case MissingTokenError():
                return error(path, 401, "unauthorized", str(raised), headers=self._challenge(path))
            case InvalidTokenError():
                challenge = self._challenge(path, "invalid_token", str(raised))
                return error(path, 401, "invalid_token", str(raised), headers=challenge)
            case InvalidRequestError():
                challenge = self._challenge(path, "invalid_request", str(raised))
                return error(path, 400, "invalid_request", str(raised), headers=challenge)
            case TooManyUnknownError():
                return error(path, 429, "limit_exceeded", str(raised), headers={"retry-after": "1"})
            case AuthenticationUnavailableError():
                return error(path, 503, "unavailable", str(raised), headers={"retry-after": "1"})
            case MalformedRecordError():
                return error(path, 500, "malformed_record", str(raised))
        return error(path, 401, "unauthorized", str(raised), headers=self._challenge(path))

    def _challenge(
        self, path: str, code: str | None = None, description: str = "", scope: str | None = None
    ) -> dict[str, str]:
        """`WWW-Authenticate` (RFC 6750, section 3; RFC 9728, section 5.1)."""
        place = place_of(path)
        at = "/mcp" if place is None else place.path
        parts = [f'resource_metadata="{self._url}/.well-known/oauth-protected-resource{_safe(at)}"']
        if code is not None:
            parts += [f'error="{code}"', f'error_description="{_safe(description)}"']
        if scope is not None:
            parts.append(f'scope="{_safe(scope)}"')
        return {"www-authenticate": f"Bearer {', '.join(parts)}"}


def _safe(text: str) -> str:
    r"""What may stand between quotes in a header (RFC 6750, section 3: no `"`, no `\`, ASCII alone), and no token."""
    return "".join(
        each if " " <= each <= "~" and each not in '"\\' else "'" for each in without_tokens(text)
    )[:500]
