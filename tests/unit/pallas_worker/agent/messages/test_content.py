"""From the messages of a turn to the blocks of its result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import pytest
from fast_agent.types import LlmStopReason, PromptMessageExtended
from mcp_types import ImageContent, TextContent

from pallas_worker.agent.messages.content import finish_reason, incomplete, result_content
from support.data.image_data import PNG

if TYPE_CHECKING:
    from collections.abc import Sequence

IMAGE = ImageContent(type="image", data=PNG, mime_type="image/png")


def says(
    *blocks: str | ImageContent,
    stop: LlmStopReason | None = None,
    role: Literal["user", "assistant"] = "assistant",
) -> PromptMessageExtended:
    content: list[Any] = [
        TextContent(type="text", text=block) if isinstance(block, str) else block for block in blocks
    ]
    return PromptMessageExtended(role=role, content=content, stop_reason=stop)


CALLS, GOES_ON, ENDS = LlmStopReason.TOOL_USE, LlmStopReason.CONTINUE, LlmStopReason.END_TURN


@pytest.mark.parametrize(
    ("before", "answer", "expected"),
    [
        ([], says("a", stop=ENDS), ["a"]),
        ([says("first", stop=CALLS), says("tool", role="user")], says("a", stop=ENDS), ["first", "a"]),
        ([says("half", stop=GOES_ON)], says("the rest", stop=ENDS), ["half", "the rest"]),
        ([says("earlier"), says("now", role="user")], says("a", stop=ENDS), ["a"]),
        ([says("first", stop=CALLS)], says(stop=ENDS), ["first", ""]),
        ([says("first", stop=CALLS)], says(IMAGE, stop=ENDS), ["first", "", IMAGE]),
        ([], says(IMAGE, stop=ENDS), [IMAGE]),
        ([], says("a", IMAGE, "b", stop=ENDS), ["a\nb", IMAGE]),
        ([], says(stop=ENDS), [""]),
        ([says(stop=CALLS), says("", stop=CALLS)], says("a", stop=ENDS), ["a"]),
    ],
)
def test_the_last_text_is_the_answer(
    before: Sequence[PromptMessageExtended],
    answer: PromptMessageExtended,
    expected: Sequence[str | ImageContent],
) -> None:
    blocks = result_content([*before, answer], answer)
    assert [block.text if isinstance(block, TextContent) else block for block in blocks] == expected


def test_an_answer_that_is_a_tools_own_result_follows_what_was_said_before() -> None:
    asking = says("I hand it on.", stop=CALLS)
    answer = says("the tool's words", stop=ENDS)
    assert result_content([asking], answer) == [
        TextContent(type="text", text="I hand it on."),
        TextContent(type="text", text="the tool's words"),
    ]


def test_the_answer_of_a_held_turn_is_the_message_with_its_calls() -> None:
    answer = says("second", stop=CALLS)
    turn = [says("first", stop=CALLS), says("tool", role="user"), answer]
    assert [block.text for block in result_content(turn, answer) if isinstance(block, TextContent)] == [
        "first",
        "second",
    ]


@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        (None, "stop"),
        (ENDS, "stop"),
        (LlmStopReason.STOP_SEQUENCE, "stop"),
        (LlmStopReason.MAX_TOKENS, "length"),
        (LlmStopReason.MAX_ITERATIONS, "length"),
        (LlmStopReason.SAFETY, "content_filter"),
    ],
)
def test_why_a_turn_has_ended_is_said_in_the_words_of_chat_completions(
    stop: LlmStopReason | None, reason: str
) -> None:
    assert finish_reason(says("a", stop=stop)) == reason


@pytest.mark.parametrize(
    ("text", "stop", "reason"),
    [
        ("a", LlmStopReason.END_TURN, None),
        (" \n", LlmStopReason.END_TURN, "empty"),
        ("", LlmStopReason.MAX_ITERATIONS, "max_iterations"),
        ("a", LlmStopReason.MAX_TOKENS, "max_tokens"),
        ("a", LlmStopReason.SAFETY, "content_filter"),
    ],
)
def test_an_answer_that_is_no_whole_one_says_why(text: str, stop: LlmStopReason, reason: str | None) -> None:
    answer = says(text, stop=stop)
    assert incomplete(answer, result_content([answer], answer)) == reason


def test_images_alone_are_an_answer() -> None:
    answer = PromptMessageExtended(
        role="assistant", content=[ImageContent(type="image", data="", mime_type="image/png")]
    )
    assert incomplete(answer, result_content([answer], answer)) is None
