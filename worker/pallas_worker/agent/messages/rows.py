"""Rows of a history as fast-agent's messages, and the messages of a turn as rows to be sent with the next one.

Knows fast-agent's public message types; must not know how an agent is run. One way and the other, a model's provider
gets what it got when fast-agent kept the conversation itself.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from fast_agent.mcp.helpers.content_helpers import canonicalize_tool_result_content_for_llm, get_text
from fast_agent.types import PromptMessageExtended
from mcp_types import (
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    ContentBlock,
    ImageContent,
    TextContent,
)

from pallas_common.logs.setup import get_logger
from pallas_worker.agent.messages.channels import kept_channels, restored_channels
from pallas_worker.agent.messages.content import image_block, message_of, user_turn
from pallas_worker.interface.errors import ArgumentError
from pallas_worker.interface.history import Row
from pallas_worker.interface.images import Image
from pallas_worker.interface.pairing import ends_with_results
from pallas_worker.interface.tool_calls import ToolCall, nothing_said

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

    from pallas_worker.interface.turn import TurnRequest
    from pallas_worker.interface.vision import Vision

_log = get_logger("pallas.worker.messages")


def conversation(
    request: TurnRequest, vision: Vision
) -> tuple[list[PromptMessageExtended], PromptMessageExtended]:
    """What a turn begins with: the conversation so far, and the message that the model is to answer.

    Raises:
        ArgumentError: there is no new user turn, and the history does not end with results.
    """
    messages = history_messages(request.history.rows, vision)
    if request.message or request.images or request.resume:
        return messages, user_turn(request.message, request.images)
    if not ends_with_results(request.history):
        raise ArgumentError(
            "there is neither a user's message nor a tool's result with its call to go on from"
        )
    return messages[:-1], messages[-1]


def history_messages(rows: Iterable[Row], vision: Vision) -> list[PromptMessageExtended]:
    """The replayed history; the results of one round of calls are one message.

    An image that the model does not take is left out, because the conversation may have begun on another
    model and its text is still good. A note stands in its place, for the model to read, and a warning in the
    log names the row, counted as the caller counts. For images that were malformed there is a note as well.
    Images of results are left to fast-agent, which does the same with them within a turn.
    """
    messages: list[PromptMessageExtended] = []
    for row in rows:
        if row.role != "tool":
            messages.append(_said(row, vision))
        elif messages and messages[-1].tool_results is not None:
            messages[-1].tool_results[row.call_id] = _result(row)
        else:
            messages.append(
                PromptMessageExtended(role="user", content=[], tool_results={row.call_id: _result(row)})
            )
    return messages


def turn_rows(messages: Iterable[PromptMessageExtended], history: Sequence[Row] = ()) -> tuple[Row, ...]:
    """The messages of a turn as rows, without the results that the history ends with: it has them already."""
    known = {row.call_id for row in takewhile(lambda row: row.role == "tool", reversed(history))}
    rows: list[Row] = []
    for index, message in enumerate(messages):
        rows += _rows_of(message, () if index else known)
    return tuple(rows)


def exchange_rows(message: PromptMessageExtended, answer: PromptMessageExtended) -> tuple[Row, ...]:
    """A turn of which only what was asked and answered is kept: what an agent's parts said to each other is no
    conversation with the user.
    """
    return (
        *_rows_of(message),
        *_rows_of(message_of("assistant", answer.all_text(), _images(answer.content))),
    )


def _said(row: Row, vision: Vision) -> PromptMessageExtended:
    kept = [image for image in row.images if image.mime_type in vision.types]
    notes = [_note("they cannot be read", row.unreadable)] if row.unreadable else []
    if left_out := len(row.images) - len(kept):
        _log.warning(f"history[{row.index}]: {_count(left_out)} left out, which the model does not take")
        notes.append(_note("the model does not take them", left_out))
    text = "\n\n".join(filter(None, (row.content, *notes)))
    message = message_of("assistant" if row.role == "assistant" else "user", text, kept)
    if row.calls:
        message.tool_calls = {
            call.id: CallToolRequest(
                method="tools/call",
                params=CallToolRequestParams(name=call.name, arguments=dict(call.arguments)),
            )
            for call in row.calls
        }
    if row.channels:
        channels, reason = restored_channels(row)
        message.channels = channels or None
        if reason is not None:
            _log.warning(f"history[{row.index}] state left out: {reason}")
    return message


def _result(row: Row) -> CallToolResult:
    parts: list[str | Image] = [*row.parts]
    if row.unreadable:
        parts.append(_note("they cannot be read", row.unreadable))
    parts = parts or [nothing_said(row.is_error)]
    content: list[ContentBlock] = [
        TextContent(type="text", text=part) if isinstance(part, str) else image_block(part) for part in parts
    ]
    return CallToolResult(content=content, is_error=row.is_error)


def _rows_of(message: PromptMessageExtended, known: Container[str] = ()) -> Iterator[Row]:
    for id_, result in (message.tool_results or {}).items():
        if id_ not in known:
            parts = tuple(_parts(canonicalize_tool_result_content_for_llm(result)))
            text = "\n".join(part for part in parts if isinstance(part, str))
            images = tuple(part for part in parts if isinstance(part, Image))
            yield Row("tool", text, images, call_id=id_, is_error=bool(result.is_error), parts=parts)
    calls = tuple(
        ToolCall(id_, call.params.name, call.params.arguments or {})
        for id_, call in (message.tool_calls or {}).items()
    )
    text, images = message.all_text(), _images(message.content)
    if text or images or calls:
        channels = kept_channels(message.channels) if message.role == "assistant" else {}
        yield Row(message.role, text, images, calls=calls, channels=channels)


def _parts(blocks: Iterable[ContentBlock]) -> Iterator[str | Image]:
    """The blocks of a result as a row has them; what is neither text nor an image is named."""
    for block in blocks:
        if isinstance(block, ImageContent):
            yield Image(block.data, block.mime_type)
        elif (text := get_text(block)) is None:
            yield f"[left out: {block.type}]"
        elif text:
            yield text


def _images(blocks: Iterable[ContentBlock]) -> tuple[Image, ...]:
    return tuple(Image(block.data, block.mime_type) for block in blocks if isinstance(block, ImageContent))


def _note(reason: str, images: int) -> str:
    return f"[left out, because {reason}: {_count(images)}]"


def _count(images: int) -> str:
    return f"{images} image{'' if images == 1 else 's'}"
