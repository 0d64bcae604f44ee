"""The new turn as fast-agent gets it, and the result's content as the caller gets it.

Knows fast-agent's public message types; must not know how an agent is run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from fast_agent.types import LlmStopReason, PromptMessageExtended
from mcp_types import ContentBlock, ImageContent, TextContent

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pallas_common.protocol.agent.incomplete import Reason
    from pallas_worker.interface.images import Image
    from pallas_worker.interface.turn import FinishReason

_GO_ON = (LlmStopReason.TOOL_USE, LlmStopReason.CONTINUE)
"""Why a model stops in the middle of a turn. Rows of a history have no such reason."""


_FINISHED: Mapping[LlmStopReason, FinishReason] = {
    LlmStopReason.MAX_TOKENS: "length",
    LlmStopReason.MAX_ITERATIONS: "length",
    LlmStopReason.SAFETY: "content_filter",
}


_INCOMPLETE: Mapping[LlmStopReason, Reason] = {
    LlmStopReason.MAX_TOKENS: "max_tokens",
    LlmStopReason.MAX_ITERATIONS: "max_iterations",
    LlmStopReason.SAFETY: "content_filter",
}


def user_turn(message: str, images: Iterable[Image]) -> PromptMessageExtended:
    """The new turn: the text first, then its images."""
    return message_of("user", message, images)


def result_content(
    turn: Iterable[PromptMessageExtended], answer: PromptMessageExtended
) -> list[ContentBlock]:
    """What the caller gets: each text of the turn as a block, the answer's last, then its images.

    A text before the answer is what the model says as it calls tools, or before it goes on where a provider has
    made a pause. The last text block is the answer; it is empty where the model ends without a word, unless the
    answer is images alone. Never an empty list. Of a turn that is held before tool calls, the message with them is
    the answer.

    Args:
        turn: the messages of the turn, of both sides; a replayed history among them is passed over.
    """
    texts = [
        text
        for message in turn
        if message.stop_reason in _GO_ON and message is not answer and (text := message.all_text())
    ]
    images = [block for block in answer.content if isinstance(block, ImageContent)]
    text = answer.all_text()
    if text or texts or not images:
        texts.append(text)
    return [*(TextContent(type="text", text=text) for text in texts), *images]


def finish_reason(answer: PromptMessageExtended) -> FinishReason:
    """Why a turn has ended with this answer; a loop of tools that was cut short has a length, too."""
    return _FINISHED.get(answer.stop_reason, "stop") if answer.stop_reason is not None else "stop"


def incomplete(answer: PromptMessageExtended, content: Sequence[ContentBlock]) -> Reason | None:
    """Why a turn that has ended with this answer has no whole one; `content` is what the caller gets of it."""
    if answer.stop_reason is not None and answer.stop_reason in _INCOMPLETE:
        return _INCOMPLETE[answer.stop_reason]
    last = content[-1] if content else None
    return "empty" if isinstance(last, TextContent) and not last.text.strip() else None


def message_of(
    role: Literal["user", "assistant"], text: str, images: Iterable[Image]
) -> PromptMessageExtended:
    """A message: the text first, if there is one, then its images."""
    content: list[ContentBlock] = [TextContent(type="text", text=text)] if text else []
    return PromptMessageExtended(role=role, content=[*content, *map(image_block, images)])


def image_block(image: Image) -> ImageContent:
    """An image as fast-agent has it."""
    return ImageContent(type="image", data=image.data, mime_type=image.mime_type)
