"""The pages and the parts of them that the script asks for: what is read."""

from __future__ import annotations

import base64
import binascii
import re
from functools import partial
from typing import TYPE_CHECKING

from starlette.responses import HTMLResponse, JSONResponse, Response

from pallas_common.http.answers import has_etag
from pallas_gateway.http.errors import ApiError
from pallas_gateway.http.pages.requests import admitted_of, csrf_of, has_session
from pallas_gateway.http.pages.view.chat import home_page, new_page, thread_page
from pallas_gateway.http.pages.view.facts import Viewer
from pallas_gateway.http.pages.view.lists import thread_list
from pallas_gateway.store.conversations.messages import list_messages

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

    from pallas_gateway.http.api.conversations.access import Conversations
    from pallas_gateway.http.pages.chat.reading import Reading
    from pallas_gateway.http.pages.view.facts import Notice

_IMAGE = re.compile(r"data:(?P<type>image/(?:png|jpeg|gif|webp));base64,(?P<data>.*)", re.DOTALL)
_NUMBER = re.compile(r"[0-9]{1,9}")


class Pages:
    """What GET answers.

    Args:
        build: names the version of script and style.
    """

    def __init__(self, reading: Reading, conversations: Conversations, build: str) -> None:
        self._reading = reading
        self._conversations = conversations
        self._build = build

    async def page(self, request: Request, notice: Notice | None = None, status: int = 200) -> Response:
        """The agents, an agent that is to be talked to (`?agent=`), or a conversation (`?thread=`).

        Args:
            notice: what went wrong with a form that was sent from there.
            status: of HTTP.
        """
        principal, query = admitted_of(request).principal, request.query_params
        thread, agent = query.get("thread"), query.get("agent")
        listed = await self._reading.list(
            principal, query=query.get("q", ""), before=query.get("before", ""), current=thread
        )
        viewer = Viewer(principal.name, csrf_of(request), has_session(request))
        if thread is not None:
            shown = await self._reading.thread(principal, thread, end=_number(query.get("until")))
            html = thread_page(
                shown.facts,
                shown.agent,
                shown.messages,
                listed,
                viewer,
                self._build,
                can_retry=shown.can_retry,
                is_own=shown.is_own,
                earlier=shown.earlier,
                notice=notice,
            )
        elif agent is not None:
            html = new_page(self._reading.agent(principal, agent), listed, viewer, self._build, notice)
        else:
            html = home_page(self._reading.agents(principal), listed, viewer, self._build)
        return HTMLResponse(html, status)

    async def messages(self, request: Request) -> Response:
        """The messages of a conversation from `?from=` on, as HTML, and what can be done with it now."""
        query = request.query_params
        shown = await self._reading.thread(
            admitted_of(request).principal, query.get("thread", ""), begin=_number(query.get("from"))
        )
        document = {
            "messages": shown.messages,
            "isRunning": shown.facts.is_running,
            "canRetry": shown.can_retry,
            "title": shown.facts.title,
        }
        return JSONResponse(document)

    async def threads(self, request: Request) -> Response:
        """The list of conversations alone."""
        query = request.query_params
        listed = await self._reading.list(
            admitted_of(request).principal, query=query.get("q", ""), current=query.get("thread")
        )
        return HTMLResponse(thread_list(listed))

    async def image(self, request: Request) -> Response:
        """An image that a message has, by its index and that of the part.

        It never changes, and a browser keeps it; but it asks each time, as whoever sits there now may not see it.
        """
        query = request.query_params
        thread, _ = await self._conversations.thread(
            admitted_of(request).principal, query.get("thread", ""), "view", on_agent="view"
        )
        index, part = _number(query.get("index")), _number(query.get("part"))
        if index is not None and part is not None:
            headers = {"cache-control": "private, no-cache", "etag": f'"{thread.id}.{index}.{part}"'}
            if has_etag(request, headers["etag"]):
                return Response(status_code=304, headers=headers)
            found = await self._conversations.read(
                partial(list_messages, tenant=thread.tenant, thread=thread.id, after=index - 1, limit=1)
            )
            content = found[0].row.content if found and found[0].turn_index == index else None
            if isinstance(content, list) and part < len(content):
                return _image(content[part], headers)
        raise ApiError(404, "not_found", "there is no such image")


def _image(part: dict[str, object], headers: Mapping[str, str]) -> Response:
    """An image of a message; its type is one that browsers draw and do not run."""
    match part:
        case {"image_url": {"url": str() as url}}:
            found = _IMAGE.fullmatch(url)
            if found is not None:
                try:
                    data = base64.b64decode(found["data"], validate=True)
                except (binascii.Error, ValueError):
                    pass
                else:
                    return Response(data, headers=headers, media_type=found["type"])
    raise ApiError(404, "not_found", "there is no such image")


def _number(said: str | None) -> int | None:
    return int(said) if said is not None and _NUMBER.fullmatch(said) else None
