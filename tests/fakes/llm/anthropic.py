"""Anthropic's messages as the LLM stub speaks them: requests read, turns written, whole or streamed."""

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
    messages = body["messages"]
    users = [message for message in messages if message["role"] == "user"]
    spoken = [text for message in users if (text := _text(message["content"]))]
    last = _parts(messages[-1]) if messages else []
    return {
        "model": body["model"],
        "user": spoken[-1] if spoken else "",
        "tool_results": tuple(_text(part["content"]) for part in last if part["type"] == "tool_result"),
        "tools": tuple(tool["name"] for tool in body.get("tools") or ()),
        "images": sum(part["type"] == "image" for message in messages for part in _parts(message)),
        "messages": len(messages),
    }


def error(message: str) -> dict[str, Any]:
    """The body of an HTTP error."""
    return {"type": "error", "error": {"type": "api_error", "message": message}}


def answer(body: dict[str, Any], turn: Turn, number: int) -> Response:
    """A turn, streamed if the request asks for that."""
    if body.get("stream"):
        return StreamingResponse(_stream(body, turn, number), media_type="text/event-stream")
    blocks = _blocks(turn, number)
    return JSONResponse(
        {**_head(body, turn, number), "content": blocks, "stop_reason": _stop(turn), "usage": _usage(turn)}
    )


async def _stream(body: dict[str, Any], turn: Turn, number: int) -> AsyncIterator[str]:
    head = {**_head(body, turn, number), "usage": {**_usage(turn), "output_tokens": 1}}
    yield _event({"type": "message_start", "message": head})
    pieces = [*_pieces(turn, number)]
    for index, piece in enumerate(pieces):
        if index:
            await asyncio.sleep(turn.delay)
        if turn.cut and index == len(pieces) // 2:
            return
        yield _event(piece)
    delta = {"stop_reason": _stop(turn), "stop_sequence": None}
    yield _event({"type": "message_delta", "delta": delta, "usage": {"output_tokens": turn.usage.output}})
    yield _event({"type": "message_stop"})


def _pieces(turn: Turn, number: int) -> Iterator[dict[str, Any]]:
    """The blocks of a turn as events: words of the text, tool calls with their input in two halves."""
    texts = [call.text() for call in turn.calls]
    for index, block in enumerate(_blocks(turn, number)):
        if block["type"] == "thinking":
            empty: dict[str, Any] = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [
                {"type": "thinking_delta", "thinking": word}
                for word in re.findall(r"\S+\s*", block["thinking"])
            ]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        elif block["type"] == "text":
            empty = {"type": "text", "text": ""}
            words = re.findall(r"\S*\s*", block["text"])
            deltas = [{"type": "text_delta", "text": word} for word in words if word]
        else:
            empty = {**block, "input": {}}
            text = texts.pop(0)
            halves = (text[: len(text) // 2], text[len(text) // 2 :])
            deltas = [{"type": "input_json_delta", "partial_json": half} for half in halves]
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}


def _blocks(turn: Turn, number: int) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if turn.reasoning:
        blocks.append({"type": "thinking", "thinking": turn.reasoning, "signature": f"signed-{number}"})
    if turn.text:
        blocks.append({"type": "text", "text": turn.text})
    for index, call in enumerate(turn.calls):
        blocks.append(
            {
                "type": "tool_use",
                "id": f"toolu_{number}_{index}" if call.id is None else call.id,
                "name": call.tool,
                "input": dict(call.arguments),
            }
        )
    return blocks


def _head(body: dict[str, Any], turn: Turn, number: int) -> dict[str, Any]:
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _usage(turn),
    }


def _stop(turn: Turn) -> str:
    return "tool_use" if turn.calls else "end_turn"


def _usage(turn: Turn) -> dict[str, Any]:
    """Anthropic's figures: what came from the cache, or went into it, is not part of `input_tokens`."""
    usage = turn.usage
    return {
        "input_tokens": usage.input - usage.cached,
        "cache_read_input_tokens": usage.cached,
        "cache_creation_input_tokens": usage.cache_write,
        "output_tokens": usage.output,
    }


def _parts(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    return content if isinstance(content, list) else []


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content if part.get("type") == "text")
    return content or ""


def _event(data: dict[str, Any]) -> str:
    return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n"
