"""Copies with less work are the copies that pydantic and fast-agent make."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

import pytest
from fast_agent.llm.request_param_resolution import merge_request_params
from fast_agent.types import LlmStopReason, PromptMessageExtended, RequestParams
from mcp_types import (
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    ImageContent,
    SamplingMessage,
    TextContent,
)
from pydantic import BaseModel, PrivateAttr

from pallas_worker.fastagent import copies, shortcuts


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
    copied.z = 1  # type: ignore[attr-defined]
    assert original._seen == []
    assert original.model_extra == {}


@pytest.mark.parametrize(
    "defaults",
    [
        RequestParams(),
        RequestParams(model="passthrough", max_tokens=5, streaming_timeout=3.0),
        RequestParams(template_vars={"a": 1}),
        RequestParams(template_vars={"a": 1}, stop_sequences=["."], metadata={"x": {"y": 1}}),
        RequestParams(messages=[SamplingMessage(role="user", content=TextContent(type="text", text="hi"))]),
    ],
)
@pytest.mark.parametrize(
    "given",
    [
        RequestParams(),
        RequestParams(emit_loop_progress=True, tool_execution_handler=cast("Any", object())),
        RequestParams(streaming_timeout=None, temperature=0.5, stop_sequences=[]),
        RequestParams(template_vars={}),
        RequestParams(metadata={"x": {"z": 1}}),
        RequestParams(max_tokens=None, messages=[]),
    ],
)
def test_parameters_are_merged_as_fast_agent_merges_them(
    defaults: RequestParams, given: RequestParams
) -> None:
    theirs, ours = merge_request_params(defaults, given), shortcuts._merge_request_params(defaults, given)
    assert vars(ours) == vars(theirs)
    assert ours.model_fields_set == theirs.model_fields_set
    again = shortcuts._merge_request_params(ours, ours)
    assert vars(again) == vars(merge_request_params(theirs, theirs))
    for name, value in vars(ours).items():
        if isinstance(value, list | dict):
            assert value is not vars(defaults)[name]
            assert value is not vars(given)[name]
