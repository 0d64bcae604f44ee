"""The files of the pages: script, style, icon. The same for everybody; who is known or not does not matter."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from starlette.responses import Response
from starlette.routing import Route

from pallas_common.http.answers import answer, compressed, has_etag
from pallas_gateway.http.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

_STATIC = Path(__file__).parent / "static"
_TYPES: Mapping[str, str] = {
    "page.css": "text/css",
    "page.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}


class _File(NamedTuple):
    """A file of the pages."""

    body: bytes
    compressed: bytes
    media_type: str
    etag: str


def static_route() -> Route:
    """The files of the pages: the same for everybody."""
    return Route("/chat/static/{name}", _static)


@cache
def build() -> str:
    """Names the version of the files."""
    return hashlib.blake2b(b"".join(each.body for each in _files().values()), digest_size=6).hexdigest()


@cache
def _files() -> Mapping[str, _File]:
    found = {}
    for name, media_type in _TYPES.items():
        body = (_STATIC / name).read_bytes()
        etag = f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
        found[name] = _File(body, compressed(body), media_type, etag)
    return found


async def _static(request: Request) -> Response:
    file = _files().get(request.path_params["name"])
    if file is None:
        raise ApiError(404, "not_found", "there is no such file")
    headers = {"cache-control": "no-cache", "vary": "Accept-Encoding", "etag": file.etag}
    if has_etag(request, file.etag):
        return Response(status_code=304, headers=headers)
    return answer(request, file.body, headers, file.media_type, lambda _: file.compressed)
