"""Threads and messages as documents, in the words of the reference. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pallas_common.http.json_bounds import read_json
from pallas_common.times import rfc3339

if TYPE_CHECKING:
    import datetime as dt

    from pallas_gateway.store.conversations.records import Message, Row, Thread

type Json = dict[str, Any]


def thread_document(thread: Thread) -> Json:
    """A thread."""
    return {
        "id": thread.id,
        "agent": thread.agent,
        "title": thread.title,
        "createdAt": moment(thread.created),
        "lastTurnAt": None if thread.last_turn is None else moment(thread.last_turn),
    }


def message_document(thread: str, message: Message) -> Json:
    """A message; what it has beyond the reference's fields only where there is something."""
    row = message.row
    found: Json = {
        "threadId": thread,
        "turnIndex": message.turn_index,
        "role": row.role,
        "content": row.text,
        "toolCalls": tool_calls(row) or None,
        "toolCallId": row.tool_call_id,
        "status": message.status,
        "createdAt": moment(message.created),
    }
    if isinstance(row.content, list):
        found["parts"] = row.content
    if row.is_error:
        found["isError"] = True
    if message.error is not None:
        found["error"] = message.error
    return found


def tool_calls(row: Row) -> list[Json]:
    """The calls that a message asks for; arguments that are no object of JSON stand as the text that they are."""
    return [
        {"id": call.id, "name": call.name, "arguments": _arguments(call.arguments)} for call in row.tool_calls
    ]


def moment(at: dt.datetime) -> str:
    """A time."""
    return rfc3339(at, "milliseconds")


def _arguments(text: str) -> object:
    try:
        found = read_json(text)
    except (ValueError, RecursionError):
        return text
    return found if isinstance(found, dict) else text
