"""`GET /api/v1/audit`: what was done, for whoever may everything."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import time
from contextlib import aclosing
from typing import TYPE_CHECKING

from starlette.responses import Response, StreamingResponse

from pallas_common.times import rfc3339
from pallas_gateway.access.audit_reader import MOST_LINES, Filter, following, newest
from pallas_gateway.access.predicate import may
from pallas_gateway.http.errors import ApiError
from pallas_gateway.http.openapi.operations.administration import AUDIT
from pallas_gateway.http.openapi.routes import routes_of
from pallas_gateway.http.requests import admitted_of
from pallas_gateway.identity.grants import ADMINISTRATION
from pallas_gateway.identity.principal import EXPIRED, end_of_stream
from pallas_gateway.mcp.surface import InsufficientScopeError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from starlette.requests import Request
    from starlette.routing import Route

MEDIA_TYPE = "application/x-ndjson"
DEFAULT_COUNT = 100
LONGEST_VALUE = 400


def audit_routes(path: Path) -> list[Route]:
    """The route of the audit.

    Args:
        path: of the file that is written now.
    """

    async def read(request: Request) -> Response:
        admitted = admitted_of(request)
        if not may(admitted.principal, ADMINISTRATION):
            raise InsufficientScopeError(ADMINISTRATION)
        query = {name: _value(request, name) for name in request.query_params}
        count = _count(query.get("n"))
        wanted = Filter(
            since=_since(query.get("since")),
            principal=query.get("principal"),
            action=query.get("action"),
            outcome=query.get("outcome"),
        )
        if query.get("follow", "0") not in ("", "0", "false"):
            admitted.opens_stream()
            until = end_of_stream(admitted.principal)
            return StreamingResponse(_followed(path, count, wanted, until), media_type=MEDIA_TYPE)
        try:
            found = await asyncio.to_thread(newest, path, count, wanted)
        except OSError as error:
            raise ApiError(503, "unavailable", f"the audit cannot be read: {error.strerror}") from error
        return Response(b"".join(map(_line, found)), media_type=MEDIA_TYPE)

    return routes_of(AUDIT, {"readAudit": read})


async def _followed(path: Path, count: int, wanted: Filter, until: float | None) -> AsyncIterator[bytes]:
    async with aclosing(following(path, count, wanted)) as lines:
        while True:
            try:
                async with asyncio.timeout(None if until is None else max(0.0, until - time.time())):
                    line = await anext(lines)
            except TimeoutError:
                yield _line({"message": EXPIRED})
                return
            yield _line(line)


def _line(line: dict[str, object]) -> bytes:
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def _value(request: Request, name: str) -> str:
    value = request.query_params[name]
    if len(value) > LONGEST_VALUE:
        raise ApiError(400, "invalid", f"{name}: has {LONGEST_VALUE} characters at most", field=name)
    return value


def _count(text: str | None) -> int:
    if text is None:
        return DEFAULT_COUNT
    if not (text.isascii() and text.isdecimal() and len(text) < 9):
        raise ApiError(400, "invalid", f"a whole number up to {MOST_LINES}", field="n")
    return int(text)


def _since(text: str | None) -> str | None:
    """The time as lines have it; without a zone it is in UTC."""
    if text is None:
        return None
    try:
        moment = dt.datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=dt.UTC)
        return rfc3339(moment, "microseconds")
    except (ValueError, OverflowError):
        message = "a time as 2026-03-12T10:00:00Z"
        raise ApiError(400, "invalid", message, field="since") from None
