"""What providers of LLMs answer in a rehearsal: first a call of the tool `look`, then text; the least that is valid.

Knows the events of three APIs; nothing of connections.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

type Event = dict[str, Any]


def encoded(event: Event) -> bytes:
    """An event as it is sent."""
    name = f"event: {event['type']}\n" if "type" in event else ""
    return f"{name}data: {json.dumps(event)}\n\n".encode()


_ARGUMENTS = json.dumps({"word": "hello"})


def _chat(*, again: bool) -> list[Event]:
    """OpenAI's chat completions."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": "rehearsed"}

    def chunk(delta: Event, finish: str | None = None) -> Event:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    end: Event = {**head, "choices": [], "usage": usage}
    if again:
        text = [
            chunk({"role": "assistant", "content": ""}),
            chunk({"content": "hel"}),
            chunk({"content": "lo"}),
        ]
        return [*text, chunk({}, "stop"), end]
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "look", "arguments": ""}}
    rest = {"index": 0, "function": {"arguments": _ARGUMENTS}}
    return [
        chunk({"role": "assistant", "tool_calls": [call]}),
        chunk({"tool_calls": [rest]}),
        chunk({}, "tool_calls"),
        end,
    ]


def _responses(*, again: bool) -> list[Event]:
    """OpenAI's responses."""
    response: Event = {"id": "resp_1", "object": "response", "created_at": 0, "model": "rehearsed"}
    response |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "output": []}
    part = {"type": "output_text", "text": "hello", "annotations": []}
    item: Event
    if again:
        place = {"output_index": 0, "item_id": "msg_1", "content_index": 0}
        item = {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [part],
        }
        between: list[Event] = [
            {"type": "response.content_part.added", **place, "part": {**part, "text": ""}},
            {"type": "response.output_text.delta", **place, "delta": "hello", "logprobs": []},
            {"type": "response.output_text.done", **place, "text": "hello", "logprobs": []},
            {"type": "response.content_part.done", **place, "part": part},
        ]
    else:
        place = {"output_index": 0, "item_id": "fc_1"}
        item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look"}
        item |= {"arguments": _ARGUMENTS, "status": "completed"}
        between = [
            {"type": "response.function_call_arguments.delta", **place, "delta": _ARGUMENTS},
            {
                "type": "response.function_call_arguments.done",
                **place,
                "name": "look",
                "arguments": _ARGUMENTS,
            },
        ]
    empty: Event = {"content": []} if again else {"arguments": ""}
    usage: Event = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    whole = {**response, "status": "completed", "output": [item], "usage": usage}
    events: list[Event] = [
        {"type": "response.created", "response": {**response, "status": "in_progress"}},
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {**item, **empty, "status": "in_progress"},
        },
        *between,
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def _messages(*, again: bool) -> list[Event]:
    """Anthropic's messages."""
    message: Event = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "rehearsed",
        "content": [],
    }
    message |= {"stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
    block: Event = {"type": "text", "text": ""}
    delta: Event = {"type": "text_delta", "text": "hello"}
    if not again:
        block = {"type": "tool_use", "id": "call_1", "name": "look", "input": {}}
        delta = {"type": "input_json_delta", "partial_json": _ARGUMENTS}
    reason = "end_turn" if again else "tool_use"
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": None},
            "usage": {"output_tokens": 1},
        },
        {"type": "message_stop"},
    ]


ANSWERS: Mapping[str, Callable[..., list[Event]]] = {
    "/v1/chat/completions": _chat,
    "/v1/responses": _responses,
    "/v1/messages": _messages,
}
"""By the path of a request: the events of its answer; `again` once it has the result of the tool call."""
