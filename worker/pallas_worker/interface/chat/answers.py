"""Answers in the shapes of chat completions, whole and in chunks.

Pure. Knows OpenAI's objects and what a turn ends with; must not know HTTP. What OpenAI's objects have no place for is
in the extra field `pallas`, which clients that do not know it pass over.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from mcp_types import ImageContent, TextContent

from pallas_worker.interface.chat.rows import State, image_part, messages_of
from pallas_worker.interface.turn import Text, ToolCalled, ToolReturned

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mcp_types import ContentBlock

    from pallas_worker.interface.turn import ModelUsage, TakenBack, TokenKind, TurnEvent, TurnResult

    type Json = dict[str, object]

_PROMPT: tuple[TokenKind, ...] = ("input", "cache_read", "cache_write")
_CACHED: tuple[TokenKind, ...] = ("cache_read", "cache_hit")


class Head(NamedTuple):
    """What an answer and all its chunks have in common."""

    id: str
    created: int
    """Unix time in seconds."""
    model: str
    """The agent's name."""


def completion(head: Head, result: TurnResult, ignored: Sequence[str] = ()) -> Json:
    """A whole answer."""
    message: Json = {"role": "assistant", "content": _text(result.content), **_images(result.content)}
    if calls := _held_calls(result):
        message["tool_calls"] = calls
    return {
        **_head(head, "chat.completion"),
        "choices": [
            {"index": 0, "message": message, "logprobs": None, "finish_reason": result.finish_reason}
        ],
        "usage": usage_of(result.usage),
        "pallas": _turn(result, ignored),
    }


def first_chunk(head: Head) -> Json:
    """The chunk that a stream begins with."""
    return _chunk(head, {"role": "assistant", "content": ""})


def chunk_of(head: Head, event: TurnEvent) -> Json | None:
    """What is told of an event; None for what is told at the end."""
    match event:
        case Text(_, text, "answer"):
            return _chunk(head, {"content": text})
        case Text(agent, text, "reasoning"):
            pallas: Json = {"type": "reasoning", "agent": agent}
            return _chunk(head, {"reasoning_content": text}, pallas=pallas)
        case Text(agent, text):
            return _chunk(head, {}, pallas={"type": "text", "agent": agent, "text": text})
        case ToolCalled():
            return _chunk(head, {}, pallas=_of_call("tool_call", event) | {"arguments": event.arguments})
        case ToolReturned():
            return _chunk(
                head, {}, pallas=_of_call("tool_result", event) | {"ok": event.ok, "text": event.text}
            )
        case _:
            return None


def retry_chunk(head: Head, event: TakenBack) -> Json:
    """Takes text back that earlier chunks told."""
    told = {"answer": "answer", "reasoning": "reasoning", "other": "text"}[event.kind]
    retry = {"type": "retry", "agent": event.agent, "characters": event.characters, "of": told}
    return _chunk(head, {}, pallas=retry)


def last_chunks(
    head: Head, result: TurnResult, ignored: Sequence[str] = (), *, include_usage: bool
) -> list[Json]:
    """What a stream ends with: why, what is to be kept of the turn, and the usage if it was asked for."""
    delta = _images(result.content)
    if calls := _held_calls(result):
        delta["tool_calls"] = [{"index": index, **call} for index, call in enumerate(calls)]
    chunks = [_chunk(head, delta, finish=result.finish_reason, pallas=_turn(result, ignored))]
    if include_usage:
        chunks.append(
            {**_head(head, "chat.completion.chunk"), "choices": [], "usage": usage_of(result.usage)}
        )
    return chunks


def usage_of(usage: Iterable[ModelUsage]) -> Json:
    """The tokens of all round-trips of a turn, as OpenAI counts: cached ones are part of the prompt."""
    tokens = Counter[str]()
    for one in usage:
        tokens.update(one.tokens)
    prompt, output = sum(tokens[kind] for kind in _PROMPT), tokens["output"]
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_tokens_details": {"cached_tokens": sum(tokens[kind] for kind in _CACHED)},
        "completion_tokens_details": {"reasoning_tokens": tokens["reasoning"]},
    }


def _of_call(kind: str, event: ToolCalled | ToolReturned) -> Json:
    return {
        "type": kind,
        "agent": event.agent,
        "id": event.id,
        "server": event.server,
        "tool": event.tool,
    }


def _turn(result: TurnResult, ignored: Sequence[str]) -> Json:
    by_model: dict[str, Counter[str]] = {}
    for one in result.usage:
        tokens = by_model.setdefault(one.model, Counter())
        tokens["turns"] += 1
        tokens.update(one.tokens)
    why = result.incomplete
    messages = messages_of(result.rows)
    less: Json = {}
    if left_out := result.turns_left_out:
        less = {"turns_left_out": left_out}
        if messages and messages[-1]["role"] == "assistant":
            messages[-1]["pallas"] = State(**messages[-1].get("pallas", {}), turns_left_out=left_out)
    return {
        "type": "turn",
        "messages": messages,
        **less,
        "usage": [{"model": model, **tokens} for model, tokens in by_model.items()],
        "ignored": list(ignored),
        **({"status": "complete"} if why is None else {"status": "incomplete", "reason": why}),
    }


def _held_calls(result: TurnResult) -> list[Json]:
    """The calls before which a turn is held: those of its last message."""
    if result.finish_reason != "tool_calls" or not result.rows:
        return []
    return [dict(call) for call in messages_of(result.rows[-1:])[0].get("tool_calls", ())]


def _text(content: Iterable[ContentBlock]) -> str:
    return "\n\n".join(block.text for block in content if isinstance(block, TextContent))


def _images(content: Iterable[ContentBlock]) -> Json:
    """Images of the answer, which OpenAI's messages have no place for, where others put them."""
    images = [image_part(block) for block in content if isinstance(block, ImageContent)]
    return {"images": images} if images else {}


def _chunk(head: Head, delta: Json, *, finish: str | None = None, pallas: Json | None = None) -> Json:
    # One choice, always: clients look at the first of every chunk.
    chunk = {
        **_head(head, "chat.completion.chunk"),
        "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}],
    }
    return chunk if pallas is None else {**chunk, "pallas": pallas}


def _head(head: Head, kind: str) -> Json:
    return {"id": head.id, "object": kind, "created": head.created, "model": head.model}
