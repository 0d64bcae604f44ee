"""What handlers of `/api/v1` are given: who asks, as which request, and a body within bounds."""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING, Any

from pallas_common.http.json_bounds import TooManyValuesError, read_bounded
from pallas_common.http.request_body import BodyTooLargeError, EncodingError, UnknownEncodingError, inflated
from pallas_common.problems import shortened
from pallas_common.secrets.tokens import without_tokens
from pallas_gateway.http.errors import ApiError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Scope

    from pallas_gateway.mcp.admitted import Admitted

_SANE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{7,63}")

ADMITTED = "pallas.admitted"
"""Where in a request's scope it is."""

REQUEST_ID = "pallas.request_id"
"""Where in the scope of a request the request's id is, where nobody has to be known."""

LONGEST_BODY = 4 * 1024 * 1024
"""Bytes of a request to `/api/v1`, unless a handler says otherwise."""


def admitted_of(request: Request) -> Admitted:
    """Who asks, and as which request."""
    admitted: Admitted = request.scope[ADMITTED]
    return admitted


async def read_body(request: Request, longest: int = LONGEST_BODY) -> bytes:
    """The body of a request.

    Args:
        longest: bytes.

    Raises:
        ApiError: 413, it is longer; 415 or 400, it is in an encoding that is not known here, or not in the one it says.
    """
    said = request.headers.get("content-length", "0")
    pieces, size = [], 0
    if not (said.isascii() and said.isdecimal() and len(said) < 16) or int(said) <= longest:
        async for piece in request.stream():
            size += len(piece)
            if size > longest:
                break
            pieces.append(piece)
        else:
            try:
                return await inflated(b"".join(pieces), request.headers.get("content-encoding", ""), longest)
            except UnknownEncodingError as error:
                headers = {"accept-encoding": "gzip"}
                raise ApiError(415, "unsupported", str(error), headers=headers) from None
            except EncodingError as error:
                raise ApiError(400, "invalid", str(error)) from None
            except BodyTooLargeError:
                pass
    raise ApiError(413, "too_large", f"a request here has {longest} bytes at most")


async def read_json(request: Request, longest: int = LONGEST_BODY) -> dict[str, Any]:
    """The object that is a request's body; an empty body is an empty object.

    Raises:
        ApiError: 400, it is no JSON or no object; 413, it is too long; 415, it says that it is something else.
    """
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ApiError(415, "unsupported", "send `Content-Type: application/json`")
    body = await read_body(request, longest)
    found = parsed(body) if body.strip() else {}
    if not isinstance(found, dict):
        raise ApiError(400, "invalid", "the body is JSON, but no object")
    return found


def parsed(body: bytes, wrong: str = "invalid") -> Any:
    """The value that a text of JSON in UTF-8 is.

    Args:
        wrong: the type of the error where it is none.

    Raises:
        ApiError: 400, it is none; 413, it has too many values.
    """
    try:
        return read_bounded(body)
    except TooManyValuesError as error:
        raise ApiError(413, "too_large", f"{error}: send less in one request") from None
    except UnicodeEncodeError:
        message = "the body has half of a surrogate pair, which stands for no character"
        raise ApiError(400, wrong, message) from None
    except ValueError as error:
        raise ApiError(400, wrong, f"the body is no JSON: {shortened(str(error), 200)}") from None


def request_id(scope: Scope) -> str:
    """The client's own, if it says a sane one; else a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id":
            said = value.decode("latin-1")
            if _SANE_ID.fullmatch(said) and without_tokens(said) == said:  # it is logged and audited
                return str(said)
    return secrets.token_hex(8)
