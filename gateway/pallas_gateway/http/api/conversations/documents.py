"""What happens in turns, in the words of the reference. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pallas_gateway.conversations.events import Failed, Final, Reset, Text, ToolCall, ToolResult
from pallas_gateway.servers.chat.documents import tool_calls

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pallas_common.protocol.agent.incomplete import Reason
    from pallas_gateway.conversations.events import TurnEvent
    from pallas_gateway.conversations.turn import Result
    from pallas_gateway.store.conversations.records import Row

type Json = dict[str, Any]


def result_document(thread: str, result: Result) -> Json:
    """A whole answer."""
    return {
        "threadId": thread,
        "turnIndex": result.turn_index,
        "content": result.content,
        "toolCalls": _all_calls(result.rows),
        "usage": result.usage,
        **_status(result.reason),
    }


def chunk(event: TurnEvent, thread: str) -> Json:
    """What has happened in a turn."""
    match event:
        case Text(delta):
            return {"type": "text", "delta": delta}
        case ToolCall():
            return {"type": "tool_call", "toolName": event.tool, "args": event.arguments}
        case ToolResult():
            return {"type": "tool_result", "toolName": event.tool, "ok": event.ok}
        case Reset(characters):
            return {"type": "reset", "characters": characters}
        case Final(turn_index, reason):
            return {"type": "final", "threadId": thread, "turnIndex": turn_index, **_status(reason)}
        case Failed():
            return {"type": "error", "message": event.message}


def _status(reason: Reason | None) -> Json:
    """Why an answer is no whole one; a whole one has the reference's fields alone."""
    return {} if reason is None else {"status": "incomplete", "reason": reason}


def _all_calls(rows: Iterable[Row]) -> list[Json]:
    return [call for row in rows for call in tool_calls(row)]
