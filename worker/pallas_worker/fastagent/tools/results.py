"""What a tool has given, as a model and everybody after it can take it.

Knows MCP's results; must not know agents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from mcp_types import CallToolResult, EmbeddedResource, TextContent, TextResourceContents

from pallas_common.http.json_bounds import whole_text, whole_value
from pallas_worker.interface.tool_calls import nothing_said

if TYPE_CHECKING:
    from mcp_types import ContentBlock


def whole_result(result: CallToolResult) -> CallToolResult:
    """The result with texts that everybody takes, and with one that says how the call went where the tool has none."""
    content = [whole_block(block) for block in result.content]
    try:
        structured = cast("dict[str, object] | None", whole_value(result.structured_content))
    except RecursionError:  # a function's, which no server could send
        structured = None
        content.append(
            TextContent(type="text", text="[left out: a structured result that is nested too deep]")
        )
    if structured is None and not any(map(_says_something, content)):
        content = [TextContent(type="text", text=nothing_said(bool(result.is_error)))]
    if content == result.content and structured == result.structured_content:
        return result
    return result.model_copy(update={"content": content, "structured_content": structured})


def whole_block(block: ContentBlock) -> ContentBlock:
    """The block with a text that everybody takes, where it has one."""
    if isinstance(block, TextContent) and (text := whole_text(block.text)) != block.text:
        return block.model_copy(update={"text": text})
    if isinstance(block, EmbeddedResource) and isinstance(block.resource, TextResourceContents):
        text = whole_text(block.resource.text)
        if text != block.resource.text:
            return block.model_copy(update={"resource": block.resource.model_copy(update={"text": text})})
    return block


def _says_something(block: ContentBlock) -> bool:
    return not isinstance(block, TextContent) or bool(block.text)
