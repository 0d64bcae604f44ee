"""What the forms of the pages do: a message is sent, an answer stopped, a conversation renamed or deleted.

Each works without a script: it is answered with the page to see next. A script that sends `Accept: application/json`
gets the same in a few words.
"""

from __future__ import annotations

import base64
from contextlib import aclosing
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from starlette.datastructures import UploadFile
from starlette.responses import JSONResponse, RedirectResponse

from pallas_gateway.conversations.request import read_request
from pallas_gateway.http.api.agent_documents import invalid
from pallas_gateway.http.api.conversations.asking import as_answers
from pallas_gateway.http.api.conversations.stream import failure_of
from pallas_gateway.http.api.conversations.threads import read_line
from pallas_gateway.http.errors import ApiError
from pallas_gateway.http.pages.forms import read_form
from pallas_gateway.http.pages.headers import to_root, wants_page
from pallas_gateway.http.pages.requests import admitted_of
from pallas_gateway.http.pages.view.facts import Notice
from pallas_gateway.http.requests import LONGEST_BODY

if TYPE_CHECKING:
    from starlette.datastructures import FormData
    from starlette.requests import Request
    from starlette.responses import Response

    from pallas_gateway.conversations.turn import RunningTurn
    from pallas_gateway.http.api.conversations.access import Conversations
    from pallas_gateway.http.api.conversations.asking import Asking
    from pallas_gateway.http.api.conversations.changes import ThreadChanges
    from pallas_gateway.http.pages.chat.pages import Pages


FIRST_SIGN = 1.0
"""Seconds that a person is kept waiting for the first word, or a refusal, before the page shows what there is."""


class Actions:
    """What POST does. A form that is not from a page of this session is refused."""

    def __init__(
        self, pages: Pages, conversations: Conversations, asking: Asking, changes: ThreadChanges
    ) -> None:
        self._pages = pages
        self._conversations = conversations
        self._asking = asking
        self._changes = changes

    async def send(self, request: Request) -> Response:
        """Begin a turn: in the conversation `thread`, or in a new one with `agent`; with `retry` the last one again."""
        form = await read_form(request, admitted_of(request).longest_body)
        try:
            thread = await self._begin(request, form)
        except ApiError as error:
            if not wants_page(request.scope["headers"]) or error.status in (403, 404):
                raise
            return await self._again(request, form, error)
        return _next(request, {"thread": thread})

    async def _begin(self, request: Request, form: FormData) -> str:
        admitted, thread = admitted_of(request), _text(form, "thread")
        body: dict[str, Any] = {"threadId": thread or None}
        if _text(form, "retry"):
            body["retry"] = True
        else:
            body["message"] = _text(form, "message").replace("\r\n", "\n")  # as HTML sends line ends
            body["images"] = await _images(form) or None
        if thread:
            _, record = await self._conversations.thread(admitted.principal, thread, "view")
            record = self._asking.agent(admitted, record.name)
        else:
            record = self._asking.agent(admitted, _text(form, "agent"))
        with as_answers():
            running = await self._asking.begin(admitted, record, read_request(body))
        await _first_sign(running)
        return running.thread.id

    async def _again(self, request: Request, form: FormData, error: ApiError) -> Response:
        """The page from which it was sent, with what went wrong and what was written."""
        place = {name: said for name in ("thread", "agent") if (said := _text(form, name))}
        request.scope["query_string"] = urlencode(place).encode()
        return await self._pages.page(
            _anew(request), Notice(str(error), _text(form, "message")), error.status
        )

    async def stop(self, request: Request) -> Response:
        """End the answer that is under way."""
        form = await read_form(request, admitted_of(request).longest_body)
        thread = _text(form, "thread")
        await self._changes.stop(admitted_of(request), thread)
        return _next(request, {"thread": thread})

    async def rename(self, request: Request) -> Response:
        """Give a conversation another title."""
        form = await read_form(request, LONGEST_BODY)
        title = read_line({"title": _text(form, "title")}, "title")
        if title is None:
            raise invalid("title", "is required")
        thread = await self._changes.rename(admitted_of(request), _text(form, "thread"), title)
        return _next(request, {"thread": thread.id})

    async def delete(self, request: Request) -> Response:
        """Delete a conversation."""
        form = await read_form(request, LONGEST_BODY)
        await self._changes.delete(admitted_of(request), _text(form, "thread"))
        return _next(request, {})


async def _first_sign(running: RunningTurn) -> None:
    """Wait for what happens first: until then there is nothing to see, and the agent may not take the message.

    Raises:
        ApiError: it did not.
    """
    async with aclosing(running.batches(silence=FIRST_SIGN)) as happening:
        await anext(happening, None)
    if running.refusal is not None:
        raise failure_of(running.refusal, running)


def _anew(request: Request) -> Request:
    """The request without what it remembers of its old query."""
    return type(request)(request.scope, request.receive)


def _next(request: Request, place: dict[str, str]) -> Response:
    """Where to go from here, from `chat` or from `chat/…`."""
    if not wants_page(request.scope["headers"]):
        return JSONResponse(place)
    query = f"?{urlencode(place)}" if place else ""
    return RedirectResponse(f"{to_root(request.scope['path'])}chat{query}", 303)


def _text(form: FormData, name: str) -> str:
    value = form.get(name, "")
    if not isinstance(value, str):
        raise invalid(name, "is a text, and no file")
    return value


async def _images(form: FormData) -> list[str]:
    """The files as data URLs; whether they are images is the worker's to say. A field without a file is none."""
    found = []
    for each in form.getlist("images"):
        if isinstance(each, UploadFile) and each.filename:
            data = base64.b64encode(await each.read()).decode()
            found.append(f"data:{each.content_type or 'image/png'};base64,{data}")
    return found
