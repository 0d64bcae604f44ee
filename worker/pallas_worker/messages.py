"""Between the interface's messages and fast-agent's: rows and turns in, result content out.

Knows fast-agent's public message types; must not know how an agent is run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fast_agent.types import PromptMessageExtended
from mcp_types import ContentBlock, ImageContent, TextContent

from pallas_registry.logs import get_logger

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pallas_worker.history import Role, Row
    from pallas_worker.images import Image
    from pallas_worker.vision import Vision

_log = get_logger("pallas.worker.messages")


def user_turn(message: str, images: Iterable[Image]) -> PromptMessageExtended:
    """The new turn: the text first, then its images."""
    return _message("user", message, images)


def history_messages(rows: Iterable[Row], vision: Vision) -> list[PromptMessageExtended]:
    """The replayed history.

    An image that the model does not take is left out, because the conversation may have begun on another
    model and its text is still good. A note stands in its place, for the model to read, and a warning in the
    log names the row, counted as the caller counts.
    """
    messages = []
    for row in rows:
        kept = [image for image in row.images if image.mime_type in vision.types]
        text = row.content
        if left_out := len(row.images) - len(kept):
            _log.warning(
                "history[%d]: %d images left out, which the model does not take", row.index, left_out
            )
            text = f"{text}\n\n[left out, because the model does not take them: {left_out} images]".strip()
        messages.append(_message(row.role, text, kept))
    return messages


def result_content(message: PromptMessageExtended) -> list[ContentBlock]:
    """What the caller gets: the answer's text as one block, then its images; never an empty list."""
    images = [block for block in message.content if isinstance(block, ImageContent)]
    text = message.all_text()
    return [TextContent(type="text", text=text), *images] if text or not images else [*images]


def _message(role: Role, text: str, images: Iterable[Image]) -> PromptMessageExtended:
    content: list[ContentBlock] = [TextContent(type="text", text=text)] if text else []
    content += [ImageContent(type="image", data=image.data, mime_type=image.mime_type) for image in images]
    return PromptMessageExtended(role=role, content=content)
