"""Between the interface's messages and fast-agent's: rows and turns in, result content out.

Knows fast-agent's public message types; must not know how an agent is run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fast_agent.types import LlmStopReason, PromptMessageExtended
from mcp_types import ContentBlock, ImageContent, TextContent

from pallas_common.logs.setup import get_logger

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pallas_worker.interface.history import Role, Row
    from pallas_worker.interface.images import Image
    from pallas_worker.interface.vision import Vision

_log = get_logger("pallas.worker.messages")

_GO_ON = (LlmStopReason.TOOL_USE, LlmStopReason.CONTINUE)
"""Why a model stops in the middle of a turn. Rows of a history have no such reason."""


def user_turn(message: str, images: Iterable[Image]) -> PromptMessageExtended:
    """The new turn: the text first, then its images."""
    return _message("user", message, images)


def history_messages(rows: Iterable[Row], vision: Vision) -> list[PromptMessageExtended]:
    """The replayed history.

    An image that the model does not take is left out, because the conversation may have begun on another
    model and its text is still good. A note stands in its place, for the model to read, and a warning in the
    log names the row, counted as the caller counts. For images that were malformed there is a note as well.
    """
    messages = []
    for row in rows:
        kept = [image for image in row.images if image.mime_type in vision.types]
        notes = [_note("they cannot be read", row.unreadable)] if row.unreadable else []
        if left_out := len(row.images) - len(kept):
            _log.warning(f"history[{row.index}]: {_images(left_out)} left out, which the model does not take")
            notes.append(_note("the model does not take them", left_out))
        text = "\n\n".join(filter(None, (row.content, *notes)))
        messages.append(_message(row.role, text, kept))
    return messages


def result_content(
    turn: Iterable[PromptMessageExtended], answer: PromptMessageExtended
) -> list[ContentBlock]:
    """What the caller gets: each text of the turn as a block, the answer's last, then its images.

    A text before the answer is what the model says as it calls tools, or before it goes on where a provider has
    made a pause. The last text block is the answer; it is empty where the model ends without a word, unless the
    answer is images alone. Never an empty list.

    Args:
        turn: the messages of the turn, of both sides; a replayed history among them is passed over.
    """
    texts = [text for message in turn if message.stop_reason in _GO_ON and (text := message.all_text())]
    images = [block for block in answer.content if isinstance(block, ImageContent)]
    text = answer.all_text()
    if text or texts or not images:
        texts.append(text)
    return [*(TextContent(type="text", text=text) for text in texts), *images]


def _note(reason: str, images: int) -> str:
    return f"[left out, because {reason}: {_images(images)}]"


def _images(number: int) -> str:
    return f"{number} image{'' if number == 1 else 's'}"


def _message(role: Role, text: str, images: Iterable[Image]) -> PromptMessageExtended:
    content: list[ContentBlock] = [TextContent(type="text", text=text)] if text else []
    content += [ImageContent(type="image", data=image.data, mime_type=image.mime_type) for image in images]
    return PromptMessageExtended(role=role, content=content)
