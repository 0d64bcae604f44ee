"""What a client sends and when it goes away: the body of one request, and work that ends with the connection.

Knows ASGI; must not know what is asked.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from starlette.datastructures import Headers

from pallas_common.http.json_bounds import TooManyValuesError, read_bounded
from pallas_common.http.request_body import BodyTooLargeError, EncodingError, UnknownEncodingError, inflated
from pallas_worker.interface.chat.errors import ApiError, method_not_allowed

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from starlette.types import Receive, Scope


class GoneError(Exception):
    """The client has gone away."""


class RefusedError(Exception):
    """The request is not served, and why."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(error.message)
        self.error = error


class Received(NamedTuple):
    """The body of a request."""

    fields: dict[str, object]
    size: int
    """Bytes."""


async def read_object(scope: Scope, receive: Receive, limit: int) -> Received:
    """The JSON object of a POST request.

    Strict JSON: neither NaN nor a number that no double holds, nor half a surrogate pair, in UTF-8, and no great
    depth. Its Content-Type is required, because a page of another site can send all else without asking first.

    Args:
        limit: bytes that the body may have.

    Raises:
        RefusedError: it is not such a request.
        GoneError: the client went away.
    """
    headers = Headers(scope=scope)
    if scope["method"] != "POST":
        raise RefusedError(method_not_allowed(scope["method"], "POST"))
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        message = "the header Content-Type has to be application/json"
        raise RefusedError(ApiError(415, message, code="unsupported_media_type"))
    body = await _body(headers, receive, limit)
    try:
        value = read_bounded(body)
    except TooManyValuesError as error:
        raise RefusedError(ApiError(413, f"the body has {error}", code="request_too_large")) from None
    except ValueError as error:
        raise RefusedError(ApiError(400, f"the body is not JSON: {error}", code="invalid_json")) from None
    if not isinstance(value, dict):
        raise RefusedError(ApiError(400, "the body has to be a JSON object", code="invalid_json"))
    return Received(value, len(body))


async def _body(headers: Headers, receive: Receive, limit: int) -> bytes:
    too_large = _too_large(limit)
    declared = headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:20]) > limit:
        raise too_large
    body = bytearray()
    more = True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise GoneError
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > limit:
            raise too_large
    try:
        return await inflated(bytes(body), headers.get("content-encoding", ""), limit)
    except BodyTooLargeError:
        raise too_large from None
    except UnknownEncodingError as error:
        accepted = {"Accept-Encoding": "gzip"}
        refusal = ApiError(415, str(error), code="unsupported_media_type", headers=accepted)
        raise RefusedError(refusal) from None
    except EncodingError as error:
        raise RefusedError(ApiError(400, str(error), code="invalid_encoding")) from None


def _too_large(limit: int) -> RefusedError:
    said = f"the body has more than {limit} bytes; the setting max_request_bytes says how many it may have"
    return RefusedError(ApiError(413, said, code="request_too_large"))


async def while_there[Result](receive: Receive, work: Coroutine[None, None, Result]) -> Result:
    """What `work` gives, which is cancelled as soon as the client goes away; its clean-up is waited for.

    Raises:
        GoneError: the client went away.
    """
    doing = asyncio.create_task(work)
    gone = asyncio.create_task(_gone(receive))
    try:
        await asyncio.wait((doing, gone), return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise GoneError
        return await doing
    finally:
        for task in (doing, gone):
            task.cancel()
        await asyncio.gather(doing, gone, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
