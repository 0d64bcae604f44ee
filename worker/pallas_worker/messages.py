"""Between the interface's messages and fast-agent's: rows and turns in, result content out.

Knows fast-agent's public message types; must not know how an agent is run.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from fast_agent.types import PromptMessageExtended
from mcp_types import ContentBlock, ImageContent, TextContent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pallas_worker.history import Role, Row
    from pallas_worker.images import Image

_log = logging.getLogger("pallas.worker.messages")


def user_turn(message: str, images: Iterable[Image]) -> PromptMessageExtended:
    """The new turn: the text first, then its images."""
    return _message("user", message, images)


def history_messages(rows: Iterable[Row], *, vision: bool) -> list[PromptMessageExtended]:
    """The replayed history.

    Without `vision` the images of earlier turns are left out, with a warning: the conversation may have begun
    on another model, and its text is still good.
    """
    messages = []
    left_out = 0
    for row in rows:
        images = row.images if vision else ()
        left_out += len(row.images) - len(images)
        messages.append(_message(row.role, row.content, images))
    if left_out:
        _log.warning("the model has no vision: %d images of the history left out", left_out)
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
