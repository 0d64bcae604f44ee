"""Copies with less work are the copies that pydantic makes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fast_agent.types import LlmStopReason, PromptMessageExtended
from mcp_types import (
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    ImageContent,
    TextContent,
)
from pydantic import BaseModel, PrivateAttr

from pallas_worker.fastagent import copies


def test_a_copy_of_a_message_shares_nothing_that_can_change() -> None:
    image = ImageContent(type="image", data="aGk=", mime_type="image/png")
    result = CallToolResult(
        content=[TextContent(type="text", text="42")], structured_content={"a": [1, {"b": 2}]}, is_error=False
    )
    asked = CallToolRequest(params=CallToolRequestParams(name="add", arguments={"a": [1]}))
    original = PromptMessageExtended(
        role="user",
        content=[TextContent(type="text", text="hello"), image],
        tool_calls={"one": asked},
        tool_results={"one": result},
        channels={"reasoning": [TextContent(type="text", text="hm")]},
        stop_reason=LlmStopReason.TOOL_USE,
        timestamp=datetime.now(UTC),
    )
    theirs = BaseModel.__deepcopy__(original)
    ours = copies.deepcopy(original)
    assert ours == theirs == original
    assert ours.model_fields_set == original.model_fields_set
    ours.content.append(image)
    assert ours.tool_results is not None
    structured: Any = ours.tool_results["one"].structured_content
    structured["a"][1]["b"] = 3
    ours.tool_results["two"] = result
    assert ours.tool_calls is not None
    (called,) = ours.tool_calls.values()
    assert called.params.arguments is not None
    called.params.arguments["a"].append(2)
    del ours.tool_calls["one"]
    assert ours.channels is not None
    assert isinstance(ours.channels, dict)
    ours.role = "assistant"
    assert original == theirs


def test_a_copy_has_private_and_extra_fields_of_its_own() -> None:
    class Open(TextContent, extra="allow"):
        _seen: list[str] = PrivateAttr(default_factory=list)

    original = Open(type="text", text="x")
    copied = copies.deepcopy(original)
    copied._seen.append("y")
    copied.z = 1  # type: ignore[attr-defined]  # an extra field
    assert original._seen == []
    assert original.model_extra == {}
