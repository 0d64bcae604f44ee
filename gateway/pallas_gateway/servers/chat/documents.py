"""Threads and messages as documents, in the words of the reference. Pure."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any, NoReturn

from pallas_common.times import rfc3339

if TYPE_CHECKING:
    import datetime as dt

    from pallas_gateway.store.conversations.records import Message, Row, Thread

type Json = dict[str, Any]

_HALF_PAIR = re.compile(r"\\u[dD][89a-fA-F]")


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
        found = json.loads(text, parse_constant=_refuse, parse_float=_number)
        if _HALF_PAIR.search(text):
            json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return text
    return found if isinstance(found, dict) else text


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _number(text: str) -> float:
    found = float(text)
    return found if math.isfinite(found) else _refuse(text)
