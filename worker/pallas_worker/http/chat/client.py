"""What a client sends and when it goes away: the body of one request, and work that ends with the connection.

Knows ASGI; must not know what is asked.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from pydantic_core import from_json
from starlette.datastructures import Headers

from pallas_worker.interface.chat.errors import ApiError, method_not_allowed

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from starlette.types import Receive, Scope


MAX_VALUES = 100_000
"""Lists, objects and their entries of a body: those of the longest conversation. More of them hold the loop."""

LARGE = 64 * 1024
"""Bytes of a body from which on it is checked beside the loop: for some that takes seconds."""


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

    Strict JSON: neither NaN, nor half a surrogate pair, nor another encoding than UTF-8, and no great depth. Its
    Content-Type is required, because a page of another site can send all else without asking first.

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
    if _has_too_many_values(body):
        said = f"the body has more than {MAX_VALUES} values"
        raise RefusedError(ApiError(413, said, code="request_too_large"))
    try:
        value = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise RefusedError(ApiError(400, f"the body is not JSON: {error}", code="invalid_json")) from None
    if not isinstance(value, dict):
        raise RefusedError(ApiError(400, "the body has to be a JSON object", code="invalid_json"))
    return Received(value, len(body))


async def _body(headers: Headers, receive: Receive, limit: int) -> bytes:
    said = f"the body has more than {limit} bytes; the setting max_request_bytes says how many it may have"
    too_large = RefusedError(ApiError(413, said, code="request_too_large"))
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
    return bytes(body)


def _has_too_many_values(body: bytes) -> bool:
    """Whether a JSON text has more than `MAX_VALUES` lists, objects and entries.

    Strings, which may have as many commas as they like, are left out only where that matters: it takes its time.
    """
    if len(body) < MAX_VALUES or not _has_many_marks(body):
        return False
    bare = body.replace(rb"\\", b"").replace(rb"\"", b"")
    parts = bare.split(b'"', 4 * MAX_VALUES)
    # An entry has two strings at most.
    return len(parts) > 4 * MAX_VALUES or _has_many_marks(b"".join(parts[::2]))


def _has_many_marks(text: bytes) -> bool:
    """Whether more than `MAX_VALUES` of the bytes are among those before a value."""
    left = MAX_VALUES
    for mark in b",[{":
        # To find reads as fast as memory gives, where there is little; to count does not.
        place = text.find(mark)
        while place >= 0:
            left -= 1
            if left < 0:
                return True
            place = text.find(mark, place + 1)
    return False


async def beside[Result](size: int, check: Callable[[], Result]) -> Callable[[], Result]:
    """Gives, or raises, what `check` does, which for a large body runs in a thread: the loop goes on meanwhile."""
    if size < LARGE:
        return check
    checking = asyncio.get_running_loop().run_in_executor(None, check)
    await asyncio.wait((checking,))
    return checking.result


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
