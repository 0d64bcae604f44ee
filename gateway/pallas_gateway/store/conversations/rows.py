"""Records as columns of the tables, and back. A database can be written by others: what is no record's is told."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pallas_common.http.json_bounds import whole_value
from pallas_gateway.store.conversations.records import Message, Row, Thread, ToolCall
from pallas_gateway.store.conversations.words import words
from pallas_gateway.store.errors import MalformedMessageError
from pallas_gateway.store.tables import MESSAGES, THREADS

if TYPE_CHECKING:
    import datetime as dt

    from sqlalchemy import Row as SqlRow

    from pallas_gateway.store.conversations.records import Status

type Columns = dict[str, Any]
"""Of a table, by name."""

type Found = SqlRow[*tuple[Any, ...]]
"""What a SELECT brought."""

THREAD = tuple(
    THREADS.c[name]
    for name in (
        *(
            "tenant",
            "id",
            "agent",
            "agent_key",
            "owner",
            "title",
            "session",
            "created",
            "last_turn",
            "active",
        ),
        *("length", "turn", "process"),
    )
)
"""The columns that `thread_of` reads, in their order."""

ROW = tuple(
    MESSAGES.c[name]
    for name in ("turn_index", "role", "content", "tool_calls", "tool_call_id", "is_error", "state")
)
"""The columns that `row_of` reads, in their order."""

MESSAGE = (*ROW, *(MESSAGES.c[name] for name in ("turn", "status", "error", "created")))
"""The columns that `message_of` reads, in their order."""

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def columns_of(
    tenant: str,
    thread: str,
    turn_index: int,
    turn: str,
    row: Row,
    *,
    status: Status,
    created: dt.datetime,
    error: str | None = None,
    has_words: bool = True,
) -> Columns:
    """All columns of a message; with words, it has to be put into the index of `search.py` as well."""
    return {
        "tenant": tenant,
        "thread": thread,
        "turn_index": turn_index,
        "turn": turn,
        "role": row.role,
        "content": None if row.content is None else _dump(row.content),
        "words": words(row.text) if has_words else None,
        "tool_calls": _dump([call._asdict() for call in row.tool_calls]) if row.tool_calls else None,
        "tool_call_id": row.tool_call_id,
        "is_error": row.is_error,
        "state": None if row.state is None else _dump(row.state),
        "status": status,
        "error": error,
        "created": created,
    }


def thread_of(found: Found) -> Thread:
    """The thread of a row with the columns `THREAD`."""
    return Thread(
        tenant=found[0],
        id=found[1],
        agent=found[2],
        agent_key=found[3],
        owner=found[4],
        title=found[5],
        session=found[6],
        created=found[7],
        last_turn=found[8],
        active=found[9],
        length=found[10],
        turn=found[11],
        process=found[12],
    )


def row_of(found: Found, thread: str) -> Row:
    """What the message of a row holds that begins with the columns `ROW`.

    Raises:
        MalformedMessageError: it is none of a message.
    """
    index, role, content, tool_calls, tool_call_id, is_error, state = found[:7]
    try:
        return Row(
            role=role,
            content=None if content is None else _content(json.loads(content)),
            tool_calls=() if tool_calls is None else tuple(map(_tool_call, json.loads(tool_calls))),
            tool_call_id=tool_call_id,
            is_error=bool(is_error),
            state=None if state is None else _object(json.loads(state)),
        )
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise MalformedMessageError(thread, index) from error


def message_of(found: Found, thread: str) -> Message:
    """The message of a row with the columns `MESSAGE`.

    Raises:
        MalformedMessageError: it is none.
    """
    row = row_of(found, thread)
    turn, status, error, created = found[7:]
    return Message(turn_index=found[0], turn=turn, row=row, status=status, error=error, created=created)


def _dump(value: object) -> str:
    text = _encode(value)
    # The columns' type sees to lone surrogates; a NUL is not one any more here.
    return _encode(whole_value(value)) if "\\u0000" in text else text


def _content(value: object) -> str | list[dict[str, Any]]:
    if isinstance(value, str) or (isinstance(value, list) and all(isinstance(part, dict) for part in value)):
        return value
    raise TypeError("neither a text nor parts")


def _tool_call(value: Any) -> ToolCall:
    call = ToolCall(value["id"], value["name"], value["arguments"])
    if not all(isinstance(each, str) for each in call):
        raise TypeError("no call of a tool")
    return call


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("no object")
    return value
