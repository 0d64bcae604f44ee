"""The routes below `/chat` that need a session, and the files of the pages, which need none."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from pallas_common.http.answers import answer, compressed, has_etag
from pallas_gateway.http.api.conversations.transfer import TransferHandlers
from pallas_gateway.http.errors import ApiError
from pallas_gateway.http.pages.chat.forms import Forms
from pallas_gateway.http.pages.chat.live import Live
from pallas_gateway.http.pages.chat.pages import Pages
from pallas_gateway.http.pages.chat.reading import Reading
from pallas_gateway.http.pages.headers import FILE_HEADERS, PAGE_HEADERS
from pallas_gateway.http.pages.requests import wants_page
from pallas_gateway.http.pages.view.problem import problem_page
from pallas_gateway.mcp.surface import InsufficientScopeError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.requests import Request

    from pallas_gateway.access.audit import Audit
    from pallas_gateway.conversations.turns import Turns
    from pallas_gateway.directory.directory import Directory
    from pallas_gateway.http.api.conversations.access import Conversations
    from pallas_gateway.http.api.conversations.asking import Asking
    from pallas_gateway.http.api.conversations.changes import ThreadChanges
    from pallas_gateway.http.api.conversations.stream import Followers

    type Handler = Callable[[Request], Awaitable[Response]]

PATH = "/chat"
_STATIC = Path(__file__).parents[1] / "static"
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


def chat_routes(
    conversations: Conversations,
    directory: Directory,
    turns: Turns,
    audit: Audit,
    asking: Asking,
    changes: ThreadChanges,
    followers: Followers,
) -> list[Route]:
    """With their whole paths."""
    pages = Pages(Reading(conversations, directory, turns), conversations, build())
    forms = Forms(pages, conversations, asking, changes)
    transfer = TransferHandlers(conversations, audit)
    reading: Mapping[str, Handler] = {
        "": pages.page,
        "/messages": pages.messages,
        "/threads": pages.threads,
        "/image": pages.image,
        "/export/{thread}": transfer.export,
    }
    writing: Mapping[str, Handler] = {
        "": forms.send,
        "/stop": forms.stop,
        "/rename": forms.rename,
        "/delete": forms.delete,
    }
    return [
        *(Route(f"{PATH}{path}", _said_in_a_page(handler)) for path, handler in reading.items()),
        *(
            Route(f"{PATH}{path}", _said_in_a_page(handler), methods=["POST"])
            for path, handler in writing.items()
        ),
        Route(f"{PATH}/turn", Live(conversations, turns, followers), methods=["GET"]),
    ]


def static_route() -> Route:
    """The files of the pages: the same for everybody."""
    return Route(f"{PATH}/static/{{name}}", _static)


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
    headers = {**FILE_HEADERS, "etag": file.etag}
    if has_etag(request, file.etag):
        return Response(status_code=304, headers=headers)
    return answer(request, file.body, headers, file.media_type, lambda _: file.compressed)


def _said_in_a_page(handler: Handler) -> Handler:
    """What is refused is said in a page where one was asked for."""

    async def handle(request: Request) -> Response:
        try:
            return await handler(request)
        except (ApiError, InsufficientScopeError) as error:
            if not wants_page(request):
                raise
            status = error.status if isinstance(error, ApiError) else 403
            html = problem_page(str(error), status, request.url.path, build())
            headers = error.headers if isinstance(error, ApiError) else None
            return HTMLResponse(html, status, {**PAGE_HEADERS, **(headers or {})})

    return handle
