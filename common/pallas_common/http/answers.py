"""What headers of requests say of the answer that is wanted: weights, gzip, validators (RFC 9110, 12.4, 12.5, 13.1).

Starlette's `GZipMiddleware` takes `gzip;q=0` for a wish, and compresses on the event loop, however large the body; its
comparison of validators is for files alone.
"""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

from starlette.responses import Response

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from starlette.requests import Request

COMPRESSION = 1
"""gzip's level: a tenth of the size at a tenth of the time of the highest one."""


def preferences(header: str) -> Iterator[tuple[str, Mapping[str, str], float]]:
    """Each item of an `Accept` or `Accept-Encoding` header: its name, its parameters and its weight from 0 to 1."""
    for item in header.split(","):
        name, *rest = (part.strip() for part in item.split(";"))
        parameters = dict(part.split("=", 1) for part in rest if "=" in part)
        try:
            weight = float(parameters.get("q", "1"))
        except ValueError:
            weight = 0.0
        yield name, parameters, weight


def accepts_gzip(accept_encoding: str) -> bool:
    """Whether an `Accept-Encoding` header admits gzip."""
    weights = {coding: weight for coding, _, weight in preferences(accept_encoding.lower())}
    return weights.get("gzip", weights.get("*", 0.0)) > 0


def compressed(body: bytes) -> bytes:
    """The body as gzip."""
    return gzip.compress(body, COMPRESSION, mtime=0)


def answer(
    request: Request,
    body: bytes,
    headers: Mapping[str, str],
    media_type: str | None = None,
    compress: Callable[[bytes], bytes] = compressed,
) -> Response:
    """The answer with this body, compressed if the client takes that."""
    if accepts_gzip(request.headers.get("accept-encoding", "")):
        body, headers = compress(body), {**headers, "content-encoding": "gzip"}
    return Response(body, headers=headers, media_type=media_type)


def has_etag(request: Request, etag: str) -> bool | None:
    """Whether `If-None-Match` says that the client has what `etag` stands for; None without this header."""
    if not (lines := request.headers.getlist("if-none-match")):
        return None
    tags = {tag.strip().removeprefix("W/") for line in lines for tag in line.split(",")}
    return etag in tags or "*" in tags
