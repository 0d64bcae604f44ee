"""A thread as lines of JSON, out and in again: all of it, with what the model's provider needs to go on exactly.

What comes in is hostile: its size was bounded before, its shape is here. What `pallas` of a message holds is the
worker's to check, as in every request.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any, cast, get_args

from starlette.responses import JSONResponse, StreamingResponse

from pallas_common.http.json_bounds import MOST_VALUES, has_too_many_values, parse_json
from pallas_common.problems import kind_of
from pallas_gateway.conversations.turns import agent_key
from pallas_gateway.http.api.conversations.threads import AT_A_TIME, LONGEST_LINE, MOST_BYTES
from pallas_gateway.http.errors import ApiError
from pallas_gateway.http.openapi.operations.operation import LINES
from pallas_gateway.http.requests import admitted_of, read_body
from pallas_gateway.servers.chat.documents import moment, thread_document
from pallas_gateway.store.conversations import threads
from pallas_gateway.store.conversations.messages import list_messages
from pallas_gateway.store.conversations.records import Message, Row, Status, ToolCall

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request
    from starlette.responses import Response

    from pallas_gateway.access.audit import Audit
    from pallas_gateway.http.api.conversations.access import Conversations
    from pallas_gateway.store.conversations.records import Thread

type Json = dict[str, Any]

FORMAT = 1
MOST_MESSAGES = 10_000
LONGEST_ERROR = 2000
_ROLES = ("system", "user", "assistant", "tool")


class TransferHandlers:
    """The handlers."""

    def __init__(self, conversations: Conversations, audit: Audit) -> None:
        self._conversations = conversations
        self._audit = audit

    async def export(self, request: Request) -> Response:
        """The thread in a line, then its messages."""
        principal = admitted_of(request).principal
        thread, _ = await self._conversations.thread(
            principal, request.path_params["thread"], "view", on_agent="view"
        )
        headers = {"content-disposition": f'attachment; filename="{thread.id}.jsonl"'}
        return StreamingResponse(self._lines(thread), media_type=LINES, headers=headers)

    async def import_(self, request: Request) -> Response:
        """A thread that was exported, as one of the principal's with this agent: 201."""
        admitted = admitted_of(request)
        principal = admitted.principal
        record = self._conversations.agent(principal, request.path_params["agent"])
        body = await read_body(request, admitted.longest_body)
        title, messages = await asyncio.to_thread(read_lines, body)  # it may take long, and others wait
        id_ = str(uuid.uuid4())
        target = f"agent/{record.name} thread/{id_}"
        with self._audit.doing(principal, "threads/import", target, request_id=admitted.request_id):
            thread = await self._conversations.write_thread(
                partial(
                    threads.import_thread,
                    tenant=principal.tenant,
                    id=id_,
                    agent=record.name,
                    agent_key=agent_key(record),
                    owner=principal.subject,
                    title=title,
                    messages=messages,
                )
            )
            self._conversations.changed(thread)
        return JSONResponse(thread_document(thread), 201)

    async def _lines(self, thread: Thread) -> AsyncIterator[bytes]:
        yield _line({"kind": "thread", "format": FORMAT, **thread_document(thread)})
        after = -1
        while True:
            some = await self._conversations.read(
                partial(
                    list_messages,
                    tenant=thread.tenant,
                    thread=thread.id,
                    after=after,
                    limit=AT_A_TIME,
                    longest=MOST_BYTES,
                )
            )
            if not some:
                return
            yield b"".join(_line(message_line(each)) for each in some)
            after = some[-1].turn_index


def message_line(message: Message) -> Json:
    """A message as a line of an export."""
    row = message.row
    found: Json = {
        "kind": "message",
        "turnIndex": message.turn_index,
        "turn": message.turn,
        "role": row.role,
        "content": row.content,
        "status": message.status,
        "createdAt": moment(message.created),
    }
    if row.tool_calls:
        found["toolCalls"] = [call._asdict() for call in row.tool_calls]
    if row.tool_call_id is not None:
        found["toolCallId"] = row.tool_call_id
    if row.is_error:
        found["isError"] = True
    if message.error is not None:
        found["error"] = message.error
    if row.state is not None:
        found["pallas"] = row.state
    return found


def read_lines(body: bytes) -> tuple[str, list[Message]]:
    """Title and messages of an export.

    Raises:
        ApiError: a line is none of one.
    """
    lines = [line for line in body.split(b"\n") if line.strip()]
    if not lines:
        raise ApiError(400, "invalid", "there is nothing to import: send what an export has given")
    if len(lines) > MOST_MESSAGES + 1:
        raise ApiError(413, "too_large", f"a thread that is imported has {MOST_MESSAGES} messages at most")
    if has_too_many_values(body):
        raise ApiError(413, "too_large", f"more than {MOST_VALUES} values: import less at a time")
    head = _object(lines[0], 1)
    if head.get("kind") != "thread" or head.get("format") != FORMAT:
        raise _wrong(1, "kind", f"is no thread of format {FORMAT}: the first line of an export says so")
    title = head.get("title", "")
    if not isinstance(title, str) or len(title) > LONGEST_LINE or not title.isprintable():
        raise _wrong(1, "title", f"is one printable line of at most {LONGEST_LINE} characters")
    turns: dict[str, str] = {}
    return title, [_message(_object(line, place), place, turns) for place, line in enumerate(lines[1:], 2)]


def _message(found: Json, place: int, turns: dict[str, str]) -> Message:
    if found.get("kind") != "message":
        raise _wrong(place, "kind", "is no message")
    role, status = found.get("role"), found.get("status", "complete")
    if role not in _ROLES:
        raise _wrong(place, "role", f"is one of {', '.join(_ROLES)}")
    if status not in get_args(Status):
        raise _wrong(place, "status", f"is one of {', '.join(get_args(Status))}")
    error, turn = _text(found, "error", place), _text(found, "turn", place)
    state = found.get("pallas")
    if state is not None and (not isinstance(state, dict) or role != "assistant"):
        raise _wrong(place, "pallas", "is an object, of a message of the assistant")
    return Message(
        turn_index=place - 2,
        turn=turns.setdefault(turn or "", uuid.uuid4().hex),
        row=Row(
            role=role,
            content=_content(found.get("content"), place),
            tool_calls=_calls(found.get("toolCalls"), role, place),
            tool_call_id=_text(found, "toolCallId", place),
            is_error=found.get("isError") is True,
            state=state,
        ),
        status=cast("Status", status),
        error=error and error[:LONGEST_ERROR],
        created=_moment(found.get("createdAt"), place),
    )


def _content(value: object, place: int) -> str | list[Json] | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list) and all(map(_is_part, value)):
        return value
    message = "is a text, null, or a list of parts `text` and `image_url`, these with a data URL"
    raise _wrong(place, "content", message)


def _is_part(value: object) -> bool:
    match value:
        case {"type": "text", "text": str()}:
            return True
        case {"type": "image_url", "image_url": {"url": str() as url}}:
            return url.startswith("data:image/")
    return False


def _calls(value: object, role: str, place: int) -> tuple[ToolCall, ...]:
    if value is None:
        return ()
    if role != "assistant" or not isinstance(value, list):
        raise _wrong(place, "toolCalls", "is a list, of a message of the assistant")
    calls = []
    for each in value:
        match each:
            case {"id": str() as id_, "name": str() as name, "arguments": str() as arguments}:
                calls.append(ToolCall(id_, name, arguments))
            case _:
                raise _wrong(place, "toolCalls", "has `id`, `name` and `arguments` of each, all texts")
    return tuple(calls)


def _moment(value: object, place: int) -> dt.datetime:
    if value is None:
        return dt.datetime.now(dt.UTC)
    try:
        found = dt.datetime.fromisoformat(value) if isinstance(value, str) else None
        if found is not None and found.tzinfo is not None and 1970 <= found.year <= 9000:
            return found.astimezone(dt.UTC)
    except (ValueError, OverflowError):
        pass
    raise _wrong(place, "createdAt", "is a time as 2026-03-12T10:00:00Z")


def _text(found: Json, field: str, place: int) -> str | None:
    value = found.get(field)
    if value is not None and not isinstance(value, str):
        raise _wrong(place, field, f"must be a string, not {kind_of(value)}")
    return value


def _object(line: bytes, place: int) -> Json:
    try:
        found = parse_json(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ApiError(400, "invalid", f"line {place}: is no JSON object")
    return found


def _wrong(place: int, field: str, message: str) -> ApiError:
    return ApiError(400, "invalid", f"line {place}: {field}: {message}", field=field)


def _line(document: Json) -> bytes:
    # In ASCII: half of a surrogate pair, which no UTF-8 has, goes out as it is kept.
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"
