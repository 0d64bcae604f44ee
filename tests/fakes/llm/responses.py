"""OpenAI's responses as the LLM stub speaks them: requests read, turns written, whole or streamed."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, Response, StreamingResponse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from fakes.llm_stub import Turn


def read(body: dict[str, Any]) -> dict[str, Any]:
    """What an `Asked` needs, from a request's body."""
    given = body["input"]
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    results = []
    for item in reversed(items):
        if item.get("type") != "function_call_output":
            break
        results.append(_text(item["output"]))
    users = [item for item in items if item.get("role") == "user"]
    return {
        "model": body["model"],
        "user": _text(users[-1]["content"]) if users else "",
        "tool_results": tuple(reversed(results)),
        "tools": tuple(tool["name"] for tool in body.get("tools") or () if tool["type"] == "function"),
        "images": sum(part.get("type") == "input_image" for item in items for part in _parts(item)),
        "messages": len(items),
    }


def answer(body: dict[str, Any], turn: Turn, number: int) -> Response:
    """A turn, streamed if the request asks for that."""
    if body.get("stream"):
        return StreamingResponse(_stream(body, turn, number), media_type="text/event-stream")
    return JSONResponse(_response(body, turn, number, "completed"))


async def _stream(body: dict[str, Any], turn: Turn, number: int) -> AsyncIterator[str]:
    events = [
        {"type": "response.created", "response": _response(body, turn, number, "in_progress")},
        *_pieces(turn, number),
        {"type": "response.completed", "response": _response(body, turn, number, "completed")},
    ]
    for index, event in enumerate(events):
        if index:
            await asyncio.sleep(turn.delay)
        if turn.cut and index == len(events) // 2:
            return
        yield f"event: {event['type']}\ndata: {json.dumps({**event, 'sequence_number': index})}\n\n"


def _pieces(turn: Turn, number: int) -> Iterator[dict[str, Any]]:
    """The pieces of a turn: words of the reasoning and of the text, tool calls with their arguments in one."""
    for index, item in enumerate(_items(turn, number)):
        place = {"output_index": index, "item_id": item["id"]}
        yield {"type": "response.output_item.added", "output_index": index, "item": _begun(item)}
        if item["type"] == "message":
            part = {**place, "content_index": 0}
            empty = {"type": "output_text", "text": "", "annotations": []}
            yield {"type": "response.content_part.added", **part, "part": empty}
            for word in re.findall(r"\S+\s*", turn.text):
                yield {"type": "response.output_text.delta", **part, "delta": word, "logprobs": []}
            yield {"type": "response.output_text.done", **part, "text": turn.text, "logprobs": []}
            yield {"type": "response.content_part.done", **part, "part": item["content"][0]}
        elif item["type"] == "reasoning":
            part = {**place, "summary_index": 0}
            empty = {"type": "summary_text", "text": ""}
            yield {"type": "response.reasoning_summary_part.added", **part, "part": empty}
            for word in re.findall(r"\S+\s*", turn.reasoning):
                yield {"type": "response.reasoning_summary_text.delta", **part, "delta": word}
            yield {"type": "response.reasoning_summary_text.done", **part, "text": turn.reasoning}
            yield {"type": "response.reasoning_summary_part.done", **part, "part": item["summary"][0]}
        else:
            told = {"name": item["name"], "arguments": item["arguments"]}
            yield {
                "type": "response.function_call_arguments.delta",
                **place,
                "delta": item["arguments"],
            }
            yield {"type": "response.function_call_arguments.done", **place, **told}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _begun(item: dict[str, Any]) -> dict[str, Any]:
    empty: dict[str, dict[str, Any]] = {"message": {"content": []}, "reasoning": {"summary": []}}
    begun = empty.get(item["type"], {"arguments": ""})
    return {**item, **begun, "status": "in_progress"}


def _items(turn: Turn, number: int) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if turn.reasoning:
        items.append(
            {
                "type": "reasoning",
                "id": f"rs_{number}",
                "summary": [{"type": "summary_text", "text": turn.reasoning}],
                "encrypted_content": f"encrypted-{number}",
                "status": "completed",
            }
        )
    if turn.text:
        content = [{"type": "output_text", "text": turn.text, "annotations": []}]
        items.append(
            {
                "type": "message",
                "id": f"msg_{number}",
                "role": "assistant",
                "status": "completed",
                "content": content,
            }
        )
    for index, call in enumerate(turn.calls):
        items.append(
            {
                "type": "function_call",
                "id": f"fc_{number}_{index}",
                "call_id": f"call_{number}_{index}" if call.id is None else call.id,
                "name": call.tool,
                "arguments": call.text(),
                "status": "completed",
            }
        )
    return items


def _response(body: dict[str, Any], turn: Turn, number: int, status: str) -> dict[str, Any]:
    done = status == "completed"
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 0,
        "model": body["model"],
        "status": status,
        "output": _items(turn, number) if done else [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": body.get("tools") or [],
        "usage": _usage(turn) if done else None,
    }


def _usage(turn: Turn) -> dict[str, Any]:
    usage = turn.usage
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cached},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.input + usage.output,
    }


def _parts(item: dict[str, Any]) -> list[dict[str, Any]]:
    content = item.get("content")
    return content if isinstance(content, list) else []


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""
