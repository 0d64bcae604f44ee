"""The messages of chat completions as rows of a history, and rows as such messages.

Pure. A row of `send_message` and a message of chat completions are read by one parser: what one surface gives at the
end of a turn, the other one takes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypedDict

from pallas_worker.interface.errors import ArgumentError
from pallas_worker.interface.history import parse_content, parse_rows
from pallas_worker.interface.pairing import paired

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pallas_worker.interface.history import History, Row
    from pallas_worker.interface.images import Image
    from pallas_worker.interface.tool_calls import ToolCall

INSTRUCTIONS = ("system", "developer")
"""Roles of messages that are no part of the conversation."""


class State(TypedDict):
    """What a message has for the model's provider; to be sent back as it is."""

    channels: dict[str, list[str]]


class Message(TypedDict, total=False):
    """One message as a turn's end tells it: chat completions' shape, and two fields of our own."""

    role: str
    content: str | list[dict[str, object]] | None
    tool_calls: list[dict[str, object]]
    tool_call_id: str
    is_error: bool
    """Of a failed call; left out where it is none."""
    pallas: State


def rows_of(messages: Sequence[object], *, resume: bool = False) -> History:
    """The rows of the messages, without instructions, calls and results paired; each knows its index in `messages`.

    Args:
        resume: the last calls may be without results.
    """
    entries = ((index, entry) for index, entry in enumerate(messages) if not _is_instruction(entry))
    return paired(parse_rows(entries), resume=resume)


def parse_user_message(entry: Mapping[str, object], where: str) -> tuple[str, tuple[Image, ...]]:
    """The text and the images of the new user turn, of which nothing may be malformed.

    `where` names the message in errors, as in `messages[3]`.

    Raises:
        ArgumentError: a part of it is malformed, or there is nothing in it.
    """
    field = f"{where}.content"
    try:
        content = parse_content(entry.get("content"))
    except ArgumentError as error:
        raise ArgumentError(f"{where}.{error}", field) from None
    if content.reason is not None:
        raise ArgumentError(f"{where}.{content.reason}", field)
    if not content.text and not content.images:
        raise ArgumentError(f"{field} is empty", field)
    return content.text, content.images


def messages_of(rows: Iterable[Row]) -> list[Message]:
    """The rows as messages of chat completions."""
    return [_message(row) for row in rows]


def _message(row: Row) -> Message:
    if row.role == "tool":
        message = Message(role="tool", tool_call_id=row.call_id, content=_content(row.parts))
        return message | {"is_error": True} if row.is_error else message
    parts = ((row.content,) if row.content else ()) + row.images
    message = Message(role=row.role, content=_content(parts))
    if row.calls:
        message["tool_calls"] = [_call(call) for call in row.calls]
        message["content"] = message["content"] or None
    if row.channels:
        message["pallas"] = State(channels={name: list(texts) for name, texts in row.channels.items()})
    return message


def _content(parts: Sequence[str | Image]) -> str | list[dict[str, object]]:
    """One text as it is, which every client reads; a list only where it takes one."""
    match parts:
        case []:
            return ""
        case [str() as text]:
            return text
    return [_part(part) for part in parts]


def _part(part: str | Image) -> dict[str, object]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    return {"type": "image_url", "image_url": {"url": f"data:{part.mime_type};base64,{part.data}"}}


def _call(call: ToolCall) -> dict[str, object]:
    function = {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)}
    return {"id": call.id, "type": "function", "function": function}


def _is_instruction(entry: object) -> bool:
    return isinstance(entry, dict) and entry.get("role") in INSTRUCTIONS
