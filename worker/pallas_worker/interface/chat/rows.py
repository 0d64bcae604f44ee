"""Rows of a history as messages of chat completions.

Pure. `history` reads them, for both surfaces: what one of them gives at the end of a turn, the other one takes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypedDict

from pallas_worker.interface.images import Image

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mcp_types import ImageContent

    from pallas_worker.interface.history import Row
    from pallas_worker.interface.tool_calls import ToolCall


class State(TypedDict, total=False):
    """What a message has for the model's provider, and for people; to be sent back as it is."""

    channels: dict[str, list[str]]
    turns_left_out: int
    """Of the conversation before it, which its model was not given."""


class Message(TypedDict, total=False):
    """One message as a turn's end tells it: chat completions' shape, and two fields of our own."""

    role: str
    content: str | list[dict[str, object]] | None
    tool_calls: list[dict[str, object]]
    tool_call_id: str
    is_error: bool
    """Of a failed call; left out where it is none."""
    pallas: State


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
    return [image_part(part) if isinstance(part, Image) else {"type": "text", "text": part} for part in parts]


def image_part(image: Image | ImageContent) -> dict[str, object]:
    """The part of a message that is an image."""
    return {"type": "image_url", "image_url": {"url": f"data:{image.mime_type};base64,{image.data}"}}


def _call(call: ToolCall) -> dict[str, object]:
    function = {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)}
    return {"id": call.id, "type": "function", "function": function}
