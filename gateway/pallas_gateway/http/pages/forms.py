"""Forms: bodies of bounded size, with a bounded number of fields and files, and the session's token in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header
from starlette.formparsers import FormParser, MultiPartException, MultiPartParser

from pallas_common.protocol.agent.images import MAX_IMAGES
from pallas_gateway.http.errors import ApiError
from pallas_gateway.http.pages.requests import CSRF_FIELD, check_csrf
from pallas_gateway.http.requests import read_body

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.datastructures import FormData
    from starlette.requests import Request

URLENCODED = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"

MOST_FIELDS = 100
"""Fields of a form, files apart; none of ours has so many."""
LONGEST_URLENCODED = 64 * 1024
"""Bytes of a form without files: to read one takes a thousand times as long as one with files, and the whole process
waits. Messages are sent as forms with files."""


async def read_form(request: Request, longest: int) -> FormData:
    """The form of a request that changes something, of a session.

    Args:
        longest: bytes of the body.

    Raises:
        ApiError: 400, it is no form; 403, neither the header nor a field says the session's token; 413, too long; 415,
            it is something else.
    """
    form = await parse_form(request, longest)
    check_csrf(request, form.get(CSRF_FIELD))
    return form


async def parse_form(request: Request, longest: int) -> FormData:
    """The form of a request, whoever sends it.

    Raises:
        ApiError: 400, 413, 415, as `read_form` says.
    """
    said = request.headers.get("content-type", "")
    kind = said.partition(";")[0].strip().lower()
    if kind not in (URLENCODED, MULTIPART):
        raise ApiError(415, "unsupported", f"send a form, as {URLENCODED} or {MULTIPART}")
    # Python knows character sets that take hours to read some megabytes, and others that make half of a surrogate pair.
    _, options = parse_options_header(said)
    if options.get(b"charset", b"utf-8").lower() != b"utf-8":
        raise ApiError(415, "unsupported", "send a form in UTF-8, as browsers do from a page that is in it")
    body = await read_body(request, longest if kind == MULTIPART else min(longest, LONGEST_URLENCODED))
    if kind == URLENCODED and body.count(b"&") >= MOST_FIELDS:  # of which a parser makes no more fields
        raise ApiError(400, "invalid", f"the body is no form of ours: it has more than {MOST_FIELDS} fields")
    try:
        if kind == MULTIPART:
            parser = MultiPartParser(
                request.headers,
                _pieces(body),
                max_files=MAX_IMAGES,
                max_fields=MOST_FIELDS,
                max_part_size=longest,
            )
            parser.spool_max_size = longest  # what somebody sends to an agent is never on the disk
            return await parser.parse()
        return await FormParser(
            request.headers, _pieces(body), max_fields=MOST_FIELDS, max_part_size=longest
        ).parse()
    except (MultiPartException, FormParserError, ValueError, LookupError) as error:
        message = error.message if isinstance(error, MultiPartException) else "it cannot be read"
        raise ApiError(400, "invalid", f"the body is no form: {message}") from None


async def _pieces(body: bytes) -> AsyncGenerator[bytes]:
    yield body
    yield b""
