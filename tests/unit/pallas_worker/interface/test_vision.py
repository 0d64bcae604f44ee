"""Which images an agent takes, by the models that read them, and what it is told of a conversation, by its kind."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from fast_agent.agents.agent_types import AgentType
from fast_agent.types import PromptMessageExtended
from mcp_types import ImageContent, TextContent

from pallas_common.protocol.agent.images import MIME_TYPES
from pallas_worker.agent.messages.rows import history_messages
from pallas_worker.agent.models.agent_kinds import image_readers, messages_for
from pallas_worker.agent.models.capabilities import image_types
from pallas_worker.interface.errors import ArgumentError
from pallas_worker.interface.history import Row
from pallas_worker.interface.images import Image
from pallas_worker.interface.vision import Vision, common_vision
from support.data.image_data import BASE64, PNG

ALL = frozenset(MIME_TYPES)
STILL = ALL - {"image/gif"}
NONE: frozenset[str] = frozenset()


def image(mime_type: str = "image/png") -> Image:
    return Image(BASE64[mime_type], mime_type)


def test_what_fast_agent_sends_to_a_model() -> None:
    assert image_types("google.gemini-2.5-pro") == ALL
    assert image_types("openai.gpt-4.1") == image_types("anthropic.claude-sonnet-4-5") == STILL
    assert image_types("passthrough") == image_types("openai.never-heard-of") == NONE


def definition(kind: AgentType, **fields: Any) -> dict[str, Any]:
    return {"type": kind.value, "config": SimpleNamespace(model=None), **fields}


AGENTS = {
    "one": definition(AgentType.BASIC),
    "two": definition(AgentType.BASIC),
    "manager": definition(AgentType.BASIC, child_agents=["one", "two"]),
    "own": definition(AgentType.CUSTOM),
    "chain": definition(AgentType.CHAIN, sequence=["one", "two"], cumulative=False),
    "cumulative": definition(AgentType.CHAIN, sequence=["one", "two"], cumulative=True),
    "router": definition(AgentType.ROUTER, router_agents=["one", "two"]),
    "only": definition(AgentType.ROUTER, router_agents=["one"]),
    "parallel": definition(AgentType.PARALLEL, fan_out=["one", "chain"], fan_in="two"),
    "refined": definition(AgentType.EVALUATOR_OPTIMIZER, generator="one", evaluator="two"),
    "maker": definition(AgentType.MAKER, worker="one"),
    "planner": definition(AgentType.ITERATIVE_PLANNER, child_agents=["one"]),
    "orchestrator": definition(AgentType.ORCHESTRATOR, child_agents=["one"]),
    "nested": definition(AgentType.CHAIN, sequence=["planner", "one"]),
}


@pytest.mark.parametrize(
    ("agent", "readers"),
    [
        ("one", {("one", True)}),
        ("manager", {("manager", True)}),
        ("own", {("own", True)}),
        ("chain", {("one", True)}),
        ("cumulative", {("one", True), ("two", True)}),
        ("router", {("router", True), ("one", True), ("two", True)}),
        ("only", {("one", True)}),
        ("parallel", {("one", True)}),
        ("refined", {("one", True)}),
        ("maker", {("one", True)}),
        ("planner", {("planner", False)}),
        ("orchestrator", {("orchestrator", False)}),
        ("nested", {("planner", False)}),
    ],
)
def test_who_reads_the_images(agent: str, readers: set[tuple[str, bool]]) -> None:
    assert set(image_readers(agent, AGENTS)) == readers


@pytest.mark.parametrize(
    ("readers", "types", "reason"),
    [
        ([("a", ALL)], ALL, None),
        ([("a", ALL), ("b", STILL)], STILL, None),
        ([("a", NONE)], NONE, "this agent's model has no vision"),
        ([("a", ALL), ("b", NONE)], NONE, "the model of its agent b has no vision"),
        ([("a", None)], NONE, "this agent plans by the text alone and takes no images"),
        ([("b", None)], NONE, "its agent b plans by the text alone and takes no images"),
        (
            [("b", frozenset(["image/png"])), ("c", frozenset(["image/gif"]))],
            NONE,
            "no type of image in common",
        ),
    ],
)
def test_what_all_readers_take(readers: Any, types: frozenset[str], reason: str | None) -> None:
    vision = common_vision("a", readers)
    assert vision.types == types
    vision.refuse([])
    if reason is not None:
        with pytest.raises(ArgumentError, match=f"^images: .*{reason}$"):
            vision.refuse([image()])


def test_a_type_that_the_model_does_not_take_is_named_with_those_that_it_takes() -> None:
    with pytest.raises(
        ArgumentError,
        match=r"images\[1\]: this agent's model takes image/png, image/jpeg, image/webp, not image/gif",
    ):
        Vision(STILL).refuse([image(), image("image/gif")])


def test_images_of_the_history_that_the_model_does_not_take_leave_a_note(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rows = [
        Row("user", "look", (image(), image("image/gif"))),
        Row("assistant", "I see", (), 1),
        Row("user", "", (image("image/gif"),), 7),
    ]
    messages = history_messages(rows, Vision(STILL))
    note = "[left out, because the model does not take them: 1 image]"
    assert [message.all_text() for message in messages] == [f"look\n\n{note}", "I see", note]
    kept = [block for message in messages for block in message.content if isinstance(block, ImageContent)]
    assert [(block.data, block.mime_type) for block in kept] == [(PNG, "image/png")]
    assert caplog.messages == [
        f"history[{index}]: 1 image left out, which the model does not take" for index in (0, 7)
    ]


def test_malformed_images_of_the_history_leave_a_note_too() -> None:
    rows = [Row("user", "look", (image(), image("image/gif")), unreadable=2)]
    (message,) = history_messages(rows, Vision(STILL))
    assert message.all_text() == (
        "look\n\n[left out, because they cannot be read: 2 images]"
        "\n\n[left out, because the model does not take them: 1 image]"
    )


def said(role: Any, text: str, *images: Image) -> PromptMessageExtended:
    blocks: list[Any] = [TextContent(type="text", text=text)]
    blocks += [ImageContent(type="image", data=one.data, mime_type=one.mime_type) for one in images]
    return PromptMessageExtended(role=role, content=blocks)


HISTORY = [said("user", "where?", image()), said("assistant", "Berlin")]
NOW = said("user", "and then?")


@pytest.mark.parametrize("kind", [AgentType.BASIC, AgentType.LLM, AgentType.CUSTOM, None])
def test_a_plain_agent_has_its_history_and_gets_the_message(kind: AgentType | None) -> None:
    assert messages_for(kind, HISTORY, NOW) == [NOW]


@pytest.mark.parametrize("kind", ["chain", "router", "parallel", "evaluator_optimizer", "maker"])
def test_an_agent_that_hands_on_messages_gets_them_all(kind: str) -> None:
    assert messages_for(AgentType(kind), HISTORY, NOW) == [*HISTORY, NOW]


@pytest.mark.parametrize("kind", ["orchestrator", "iterative_planner"])
def test_a_planner_gets_the_conversation_as_its_objective(kind: str) -> None:
    assert messages_for(AgentType(kind), [], NOW) == [NOW]
    (message,) = messages_for(AgentType(kind), HISTORY, NOW)
    assert message.all_text() == (
        "The conversation so far:\n\nUser: where?\n[an image]\n\nYou: Berlin\n\nThe user says now:\n\nand then?"
    )
