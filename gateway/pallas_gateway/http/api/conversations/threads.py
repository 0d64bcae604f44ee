"""Threads over REST: made, listed, read, renamed, deleted."""

from __future__ import annotations

import asyncio
import datetime as dt
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse

from pallas_common.problems import kind_of, quoted
from pallas_gateway.access.predicate import may
from pallas_gateway.conversations.turns import agent_key
from pallas_gateway.http.api.agent_documents import invalid
from pallas_gateway.http.api.conversations.answers import Document
from pallas_gateway.http.api.paging import page, read_page, wrong_cursor
from pallas_gateway.http.requests import admitted_of, read_json
from pallas_gateway.identity.grants import Permission
from pallas_gateway.mcp.surface import InsufficientScopeError
from pallas_gateway.servers.chat.documents import message_document, thread_document
from pallas_gateway.store.conversations import threads
from pallas_gateway.store.conversations.messages import list_messages
from pallas_gateway.store.conversations.records import Cursor

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from pallas_gateway.access.audit import Audit
    from pallas_gateway.http.api.conversations.access import Conversations
    from pallas_gateway.http.api.conversations.changes import ThreadChanges
    from pallas_gateway.identity.principal import Principal

type Json = dict[str, Any]

LONGEST_LINE = 200
"""Characters of a title, of a session's name and of a search."""
AT_A_TIME = 200
"""Messages that are read in one transaction."""
MOST_BYTES = 8 * 1024 * 1024
"""Characters of messages that one transaction reads, and after which a page of them ends: they may hold images."""


class ThreadHandlers:
    """The handlers."""

    def __init__(self, conversations: Conversations, changes: ThreadChanges, audit: Audit) -> None:
        self._conversations = conversations
        self._changes = changes
        self._audit = audit

    async def create(self, request: Request) -> Response:
        """A thread without messages: 201; 200 where its owner has one of that session already."""
        admitted = admitted_of(request)
        principal = admitted.principal
        record = self._conversations.agent(principal, request.path_params["agent"])
        body = await read_json(request)
        _only(body, ("title", "session"))
        title, session = read_line(body, "title") or "", read_line(body, "session")
        id_ = str(uuid.uuid4())
        with self._audit.doing(
            principal, "threads/create", f"agent/{record.name}", request_id=admitted.request_id
        ) as entry:
            thread = await self._conversations.write_thread(
                partial(
                    threads.create_thread,
                    tenant=principal.tenant,
                    id=id_,
                    agent=record.name,
                    agent_key=agent_key(record),
                    owner=principal.subject,
                    title=title,
                    session=session,
                )
            )
            entry.target = f"agent/{record.name} thread/{thread.id}"
            self._conversations.changed(thread)
        return JSONResponse(thread_document(thread), 201 if thread.id == id_ else 200)

    async def list_of_agent(self, request: Request) -> Response:
        """The principal's threads with one agent."""
        principal = admitted_of(request).principal
        record = self._conversations.agent(principal, request.path_params["agent"])
        return await self._page(request, principal, [agent_key(record)], record.name)

    async def list(self, request: Request) -> Response:
        """The principal's threads with all agents that it may run."""
        principal = admitted_of(request).principal
        return await self._page(request, principal, self._conversations.runnable(principal), None)

    async def get(self, request: Request) -> Response:
        """One thread."""
        principal = admitted_of(request).principal
        thread, _ = await self._conversations.thread(principal, request.path_params["thread"], "view")
        return JSONResponse(thread_document(thread))

    async def rename(self, request: Request) -> Response:
        """Give it another title."""
        body = await read_json(request)
        _only(body, ("title",))
        title = read_line(body, "title")
        if title is None:
            raise invalid("title", "is required")
        thread = await self._changes.rename(admitted_of(request), request.path_params["thread"], title)
        return JSONResponse(thread_document(thread))

    async def delete(self, request: Request) -> Response:
        """Delete it with its messages; a turn that is under way is stopped."""
        thread = await self._changes.delete(admitted_of(request), request.path_params["thread"])
        return JSONResponse({"deleted": thread.id})

    async def stop(self, request: Request) -> Response:
        """End its turn that is under way: what that has said so far is kept as failed."""
        stopped = await self._changes.stop(admitted_of(request), request.path_params["thread"])
        return JSONResponse({"stopped": stopped})

    async def messages(self, request: Request) -> Response:
        """Its messages in their order, failed ones too."""
        principal, asked = admitted_of(request).principal, read_page(request)
        thread, _ = await self._conversations.thread(
            principal, request.path_params["thread"], "view", on_agent="view"
        )
        after = -1 if asked.cursor is None else asked.cursor
        if isinstance(after, bool) or not isinstance(after, int) or not -1 <= after < 2**31:
            raise wrong_cursor()
        found: list[Json] = []
        size = 0
        while size < MOST_BYTES and (left := asked.limit - len(found)) > 0:
            some = await self._conversations.read(
                partial(
                    list_messages,
                    tenant=thread.tenant,
                    thread=thread.id,
                    after=after,
                    limit=min(left, AT_A_TIME),
                    longest=MOST_BYTES,
                )
            )
            if not some:
                break
            for message in some:
                found.append(message_document(thread.id, message))
                size += len(message.row.text) + sum(len(str(part)) for part in found[-1].get("parts", ()))
            after = some[-1].turn_index
        last = after if found and after + 1 < thread.length else None
        # It may be large, and others wait meanwhile.
        return await asyncio.to_thread(Document, page(found, last))

    async def _page(
        self, request: Request, principal: Principal, keys: Collection[str] | None, agent: str | None
    ) -> Response:
        asked = read_page(request)
        query = request.query_params.get("q")
        if query is not None and len(query) > LONGEST_LINE:
            raise invalid("q", f"has {LONGEST_LINE} characters at most")
        owner: str | None = principal.subject
        if (said := request.query_params.get("owner", "me")) != "me":
            if said != "all":
                raise invalid("owner", "is `me` or `all`")
            if not may(principal, permission := Permission("view", "threads", agent)):
                raise InsufficientScopeError(permission)
            owner = None
        found = await self._conversations.read(
            partial(
                threads.list_threads,
                tenant=principal.tenant,
                owner=owner,
                agent_keys=keys,
                query=query,
                after=None if asked.cursor is None else cursor_of(asked.cursor),
                limit=asked.limit + 1,
            )
        )
        part = found[: asked.limit]
        last = part[-1].cursor if len(found) > len(part) else None
        place = None if last is None else [last.active.isoformat(), last.id]
        return JSONResponse(page([thread_document(each) for each in part], place))


def cursor_of(place: object) -> Cursor:
    """The place in a list of threads.

    Raises:
        ApiError: it is none.
    """
    match place:
        case [str() as active, str() as id_] if len(id_) <= 64 and id_.isprintable():
            try:
                moment = dt.datetime.fromisoformat(active)
                if moment.tzinfo is not None:
                    return Cursor(moment.astimezone(dt.UTC), id_)
            except (ValueError, OverflowError):
                pass
    raise wrong_cursor()


def read_line(body: Mapping[str, Any], field: str) -> str | None:
    """A text on one line, not empty; None where there is none."""
    value = body.get(field)
    if value is None:
        return None
    if not isinstance(value, str):
        raise invalid(field, f"must be a string, not {kind_of(value)}")
    line = value.strip()
    if not line or len(line) > LONGEST_LINE or not line.isprintable():
        raise invalid(field, f"is one printable line of 1 to {LONGEST_LINE} characters")
    return line


def _only(body: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for name in body:
        if name not in known:
            raise invalid(name[:100], f"unknown field {quoted(name)}; there are {', '.join(known)}")
