"""OpenAI's chat completions as the LLM stub speaks them: requests read, turns written, whole or streamed."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any

from starlette.responses import Response, StreamingResponse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from fakes.llm_stub import Turn


def read(body: dict[str, Any]) -> dict[str, Any]:
    """What an `Asked` needs, from a request's body."""
    messages = body["messages"]
    results = []
    for message in reversed(messages):
        if message["role"] != "tool":
            break
        results.append(_text(message["content"]))
    users = [message for message in messages if message["role"] == "user"]
    return {
        "model": body["model"],
        "user": _text(users[-1]["content"]) if users else "",
        "tool_results": tuple(reversed(results)),
        "tools": tuple(tool["function"]["name"] for tool in body.get("tools") or ()),
        "images": sum(part.get("type") == "image_url" for message in messages for part in _parts(message)),
        "messages": len(messages),
    }


def error(message: str, code: str = "stub") -> dict[str, Any]:
    """The body of an HTTP error."""
    return {"error": {"message": message, "type": "stub_error", "param": None, "code": code}}


def answer(body: dict[str, Any], turn: Turn, number: int) -> Response:
    """A turn, streamed if the request asks for that."""
    if body.get("stream"):
        return StreamingResponse(_stream(body, turn, number), media_type="text/event-stream")
    message: dict[str, Any] = {"role": "assistant", "content": turn.text or None}
    if turn.reasoning:
        message["reasoning_content"] = turn.reasoning
    if turn.calls:
        message["tool_calls"] = [_call(turn, number, index) for index in range(len(turn.calls))]
    choice = {"index": 0, "message": message, "finish_reason": _finish(turn), "logprobs": None}
    whole = {**_head(body, number, "chat.completion"), "choices": [choice], "usage": _usage(turn)}
    return Response(json.dumps(whole), media_type="application/json")


async def _stream(body: dict[str, Any], turn: Turn, number: int) -> AsyncIterator[str]:
    head = _head(body, number, "chat.completion.chunk")
    deltas = [*_deltas(turn, number)]
    for index, delta in enumerate(deltas):
        if index:
            await asyncio.sleep(turn.delay)
        if turn.cut and index == len(deltas) // 2:
            return
        if turn.dies and index > len(deltas) // 2:
            raise ConnectionResetError("the provider dies")
        yield _event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    yield _event({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": _finish(turn)}]})
    if (body.get("stream_options") or {}).get("include_usage"):
        yield _event({**head, "choices": [], "usage": _usage(turn)})
    yield "data: [DONE]\n\n"


def _deltas(turn: Turn, number: int) -> Iterator[dict[str, Any]]:
    """The pieces of a turn: words of the reasoning and of the text, tool calls with their arguments in two halves."""
    yield {"role": "assistant", "content": ""}
    for word in re.findall(r"\S+\s*", turn.reasoning):
        yield {"reasoning_content": word}
    for word in re.findall(r"\S*\s*", turn.text):
        if word:
            yield {"content": word}
    for index in range(len(turn.calls)):
        call = _call(turn, number, index)
        arguments = call["function"]["arguments"]
        middle = len(arguments) // 2
        yield {"tool_calls": [{**call, "index": index, "function": {**call["function"], "arguments": ""}}]}
        for half in (arguments[:middle], arguments[middle:]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": half}}]}


def _call(turn: Turn, number: int, index: int) -> dict[str, Any]:
    call = turn.calls[index]
    function = {"name": call.tool, "arguments": call.text()}
    return {
        "id": f"call_{number}_{index}" if call.id is None else call.id,
        "type": "function",
        "function": function,
    }


def _head(body: dict[str, Any], number: int, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{number}", "object": kind, "created": 0, "model": body["model"]}


def _finish(turn: Turn) -> str:
    return turn.finish or ("tool_calls" if turn.calls else "stop")


def _usage(turn: Turn) -> dict[str, Any]:
    usage = turn.usage
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


def _parts(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    return content if isinstance(content, list) else []


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""


def _event(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data)}\n\n"
