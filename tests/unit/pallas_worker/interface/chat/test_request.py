"""Requests of chat completions: what they become, and what is refused with the name of its place."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest

from pallas_common.protocol.agent.completion import OVERRIDES
from pallas_worker.interface.chat.conversation import MAX_MESSAGES, MAX_PARTS
from pallas_worker.interface.chat.fields import LONGEST_PATTERN, MAX_PATTERNS
from pallas_worker.interface.chat.request import ChatRequest, delivery_of, parse_chat
from pallas_worker.interface.errors import ArgumentError, ForbiddenError
from pallas_worker.interface.history import MAX_NAMED
from pallas_worker.interface.tool_calls import MAX_VALUES
from support.data.image_data import PNG
from support.worker.conversation.chat import request

IMAGE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "1"}


def parse(*messages: Any, may_override: bool = False, **fields: Any) -> ChatRequest:
    return parse_chat(request(*messages, **fields), agent="demo", may_override=may_override)


def refusal(*messages: Any, **fields: Any) -> tuple[str | None, str]:
    with pytest.raises(ArgumentError) as refused:
        parse(*messages, may_override=True, **fields)
    return refused.value.field, str(refused.value)


def message(content: Any, role: str = "user", **fields: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **fields}


def test_the_last_message_is_the_new_turn() -> None:
    turn = parse("one", message("two", "assistant"), message([{"type": "text", "text": "three"}, IMAGE])).turn
    assert [(row.role, row.content) for row in turn.history.rows] == [("user", "one"), ("assistant", "two")]
    assert turn.message == "three"
    assert [image.mime_type for image in turn.images] == ["image/png"]
    assert turn.parameters is None
    assert (turn.tools_allowlist, turn.hold, turn.resume) == (None, (), False)


def test_the_new_turn_may_have_its_images_as_send_message_has_them() -> None:
    turn = parse(message("see", images=[{"data": PNG, "mime_type": "image/png"}])).turn
    assert (turn.message, [image.data for image in turn.images]) == ("see", [PNG])


def test_instructions_are_appended_wherever_they_stand() -> None:
    brief, exact = (
        message("Be brief.", "system"),
        message([{"type": "text", "text": "Be exact."}], "developer"),
    )
    turn = parse(brief, "one", message("two", "assistant"), exact, "three", system_append="Be kind.").turn
    assert turn.system_append == "Be brief.\n\nBe exact.\n\nBe kind."
    assert turn.system_override is None
    assert len(turn.history.rows) == 2


def test_an_answer_comes_back_as_a_provider_or_a_client_has_put_it() -> None:
    answer = message("two", "assistant", refusal=None, annotations=[], reasoning_content="hm", audio=None)
    assert parse("one", answer, "three").turn.history.rows[1].content == "two"
    silent = parse("one", message(None, "assistant"), "three").turn.history
    assert [fault.index for fault in silent.left_out] == [1]


def test_a_conversation_may_end_with_results() -> None:
    turn = parse("one", message(None, "assistant", tool_calls=[CALL]), RESULT).turn
    assert (turn.message, turn.images) == ("", ())
    assert len(turn.history.rows) == 3


def test_a_held_turn_is_resumed() -> None:
    turn = parse("one", message(None, "assistant", tool_calls=[CALL]), may_override=True, resume=True).turn
    assert turn.resume
    assert turn.history.rows[-1].calls[0].id == "c1"


def test_what_may_be_set_is_set() -> None:
    turn = parse(
        "x",
        may_override=True,
        temperature=0.5,
        top_k=None,
        max_completion_tokens=7,
        system_override="You are a pirate.",
        model_override="openai.other",
        tools_allowlist=["a", "b__*"],
        hold=["c"],
        extra={"safety": 1},
        user="u",
        metadata={"conversation_id": "m"},
    ).turn
    assert turn.parameters is not None
    assert turn.parameters.values == {"temperature": 0.5, "top_k": None, "max_tokens": 7}
    assert turn.parameters.extra == {"safety": 1}
    assert (turn.system_override, turn.model_override) == ("You are a pirate.", "openai.other")
    assert (turn.tools_allowlist, turn.hold) == (frozenset({"a", "b__*"}), ("c",))
    assert turn.conversation_id == "m"
    assert parse("x", user="u").turn.conversation_id == "u"


def test_null_is_as_if_a_field_were_absent() -> None:
    names = ("stream", "stream_options", "n", "user", "metadata", "tools", "tools_allowlist", "system_append")
    nothing: dict[str, Any] = dict.fromkeys((*names, *OVERRIDES))
    same = parse("x", **nothing)
    assert same.turn.said == {"tools_allowlist", "extra"}  # which clears what the agent's definition says
    assert same._replace(turn=replace(same.turn, said=frozenset())) == parse("x")
    assert parse("x", tools=[], n=1, stream=False) == parse("x")


def test_fields_of_messages_that_are_null_say_nothing() -> None:
    kept = [message([{"text": "one", "type": "text"}], metadata=None, options=None)]
    kept += [message([{"text": "two", "type": "text"}], "assistant", metadata=None, options=None)]
    turn, ignored = parse(*kept, message("three", contnet=None))
    assert [(row.role, row.content) for row in turn.history.rows] == [("user", "one"), ("assistant", "two")]
    assert turn.message == "three"
    assert ignored == ()


def test_what_clients_keep_beside_a_message_is_named() -> None:
    marked = {"type": "text", "text": "two", "cache_control": {"type": "ephemeral"}}
    turn, ignored = parse(
        message("Be brief.", "system", cache_control={"type": "ephemeral"}),
        message("one", id="m1", timestamp=5),
        message([marked], "assistant", id="m2", refusal=None, annotations=[]),
        message("three", id="m3", metadata={}),
    )
    assert [(row.role, row.content) for row in turn.history.rows] == [("user", "one"), ("assistant", "two")]
    names = ("cache_control", "id", "timestamp", "content.cache_control", "metadata")
    assert ignored == tuple(f"messages.{name}" for name in names)


def test_what_nobody_reads_is_named() -> None:
    detailed = {"type": "image_url", "image_url": {**IMAGE["image_url"], "detail": "high"}}  # type: ignore[dict-item]
    said = parse(
        message([detailed], name="me"), store=True, metadata={"topic": "x"}, user=7, chat_id="c"
    ).ignored
    assert said == (
        *("chat_id", "messages.name", "messages.content.image_url.detail", "user", "metadata", "store"),
    )
    assert parse("x", stream=True, stream_options={"a": 1}).ignored == ("stream_options.a",)
    assert parse("x", metadata=[1]).ignored == ("metadata",)
    auto = {"type": "image_url", "image_url": {**IMAGE["image_url"], "detail": "auto"}}  # type: ignore[dict-item]
    assert parse(message([auto])).ignored == ()


def file(text: str, kind: str = "text/plain", **fields: Any) -> dict[str, Any]:
    data = base64.b64encode(text.encode()).decode()
    return {"type": "file", "file": {"file_data": f"data:{kind};base64,{data}", **fields}}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (["a", "b"], "a\n\nb"),
        ([{"type": "input_text", "text": "a"}, {"text": "b"}], "a\n\nb"),
        ([{"type": "output_text", "text": "a", "annotations": []}], "a"),
        ([file("é")], "é"),
        ([file("{}", "application/json", filename="a\nb.json")], "a b.json:\n{}"),
        ([{"type": "file", "text": "a"}, {"type": "input_file", "file": {"text": "b"}}], "a\n\nb"),
    ],
)
def test_what_is_text_is_taken_as_text(content: list[Any], said: str) -> None:
    assert parse(message(content)).turn.message == said
    assert parse(message(content, "system"), "x").turn.system_append == said
    assert parse(message(content, "assistant"), "x").turn.history.rows[0].content == said


@pytest.mark.parametrize("kind", ["image_url", "input_image"])
def test_an_image_may_be_its_url_alone(kind: str) -> None:
    url = f"data:image/png;base64,{PNG}"
    assert len(parse(message([{"type": kind, "image_url": url}])).turn.images) == 1
    assert (
        refusal(message([{"type": kind, "image_url": "http://x"}]))[0] == "messages[0].content[0].image_url"
    )


@pytest.mark.parametrize("name", OVERRIDES)
def test_overrides_are_not_for_everybody(name: str) -> None:
    with pytest.raises(ForbiddenError) as refused:
        parse_chat(request("x", **{name: "well-formed or not"}), agent="demo", may_override=False)
    assert refused.value.field == name


@pytest.mark.parametrize(
    ("fields", "place", "said"),
    [
        ({"tool_allowlist": []}, "tool_allowlist", "did you mean tools_allowlist?"),
        ({"model": None}, "model", "'demo'"),
        ({"model": 3}, "model", "must be a string, not a number"),
        ({"messages": None}, "messages", "must be a list"),
        ({"messages": []}, "messages", "has 0 messages"),
        ({"messages": [{}] * (MAX_MESSAGES + 1)}, "messages", f"1 to {MAX_MESSAGES} are allowed"),
        ({"n": 2}, "n", "must be 1"),
        ({"n": True}, "n", "must be 1"),
        ({"stream": "yes"}, "stream", "must be true or false, not a string"),
        (
            {"stream": True, "stream_options": {"include_usage": 1}},
            "stream_options.include_usage",
            "true or false",
        ),
        ({"tools": [{"type": "function"}]}, "tools", "an agent has tools of its own"),
        ({"functions": [{}]}, "functions", "an agent has tools of its own"),
        ({"temperature": 3}, "temperature", "from 0 to 2"),
        ({"tools_allowlist": "a"}, "tools_allowlist", "must be a list"),
        ({"tools_allowlist": ["a", ""]}, "tools_allowlist[1]", "is empty"),
        ({"tools_allowlist": ["a"] * (MAX_PATTERNS + 1)}, "tools_allowlist", "are allowed"),
        ({"hold": ["x" * (LONGEST_PATTERN + 1)]}, "hold[0]", "longer than"),
        ({"hold": [1]}, "hold[0]", "must be a string"),
        ({"resume": 1}, "resume", "true or false"),
        ({"resume": True}, "resume", "do not end with tool calls"),
        ({"system_override": []}, "system_override", "must be a string"),
        ({"extra": {"headers": {}}}, "extra.headers", "remove it"),
    ],
)
def test_a_field_that_does_not_fit(fields: dict[str, Any], place: str, said: str) -> None:
    field, text = refusal("x", **fields)
    assert field == place
    assert said in text


@pytest.mark.parametrize(
    ("messages", "place", "said"),
    [
        (["x", 3], "messages[1]", "must be an object"),
        ([message("x", "function")], "messages[0].role", "must be one of"),
        ([message("x", role=None)], "messages[0].role", "not null"),  # type: ignore[arg-type]
        ([message("")], "messages[0].content", "is empty"),
        ([message(None)], "messages[0].content", "must be"),
        ([message([{"type": "text", "text": "x"}] * (MAX_PARTS + 1))], "messages[0].content", "are allowed"),
        ([message([{"type": "input_audio"}])], "messages[0].content[0]", "takes text and images"),
        ([message(["x", {"type": "thinking", "thinking": "x"}])], "messages[0].content[1]", "must be"),
        ([message([file("x", "application/pdf")])], "messages[0].content[0].file.file_data", "is no text"),
        ([message([{"type": "file", "file": {"file_id": "f"}}])], "messages[0].content[0].file.file_id", "not here"),
        ([message([{"type": "file", "file": {"file_data": "data:text/plain;base64,/w=="}}])],
         "messages[0].content[0].file.file_data", "UTF-8"),
        ([message("s", "system"), message([5])], "messages[1].content[0]", "must be"),
        ([message("x", images=[{}])], "messages[0].images[0].data", "must be a base64 string"),
        ([message([{"type": "image_url", "image_url": {"url": "http://x/y"}}])],
         "messages[0].content[0].image_url.url", "data URL"),
        ([message([{"type": "image_url", "image_url": {"url": "http://x/y"}}]), "x"],
         "messages[0].content[0].image_url.url", "data URL"),
        ([message([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}])],
         "messages[0].content[0].image_url.url", "does not begin as an image"),
        ([message([IMAGE], "system"), "x"], "messages[0].content", "instruction"),
        ([message("x", "system")], "messages[0]", "has to be the user's new turn"),
        (["x", message("y", "assistant")], "messages[1]", "has to be the user's new turn"),
        (["x", RESULT], "messages[1]", "no call that stands before it"),
        (["x", message("z", "assistant", tool_calls=[{"id": "c1"}]), RESULT, "y"],
         "messages[1].tool_calls[0].function", "must be an object"),
        (["x", message(None, "assistant", tool_calls=[{"id": "c1"}]), RESULT, "y"],
         "messages[1].tool_calls[0].function", "must be an object"),
        (["x", message("z", "assistant", tool_calls=[{"id": "c1", "function": {"name": "t", "arguments":
           json.dumps({"a": [0] * MAX_VALUES})}}]), RESULT, "y"],
         "messages[1].tool_calls[0].function.arguments", "may have 100000 values"),
        (["x", {"role": "tool", "content": "1"}, "y"], "messages[1].tool_call_id", "must be a string"),
    ],
)  # fmt: skip
def test_a_message_that_does_not_fit(messages: list[Any], place: str, said: str) -> None:
    field, text = refusal(*messages)
    assert field == place
    assert said in text
    assert text.startswith("messages[")


def test_no_number_of_unusable_states_hides_a_message_that_does_not_fit() -> None:
    answers = [message("a", "assistant", pallas=5)] * (MAX_NAMED + 1)
    assert len(parse(*answers, "x").turn.history.rows) == len(answers)
    for messages in ((*answers, message(5)), (*answers, message(5), "x")):
        field, _ = refusal(*messages)
        assert field == f"messages[{len(answers)}].content"


def test_how_the_answer_is_wanted_can_be_read_of_any_request() -> None:
    assert delivery_of({"stream": True, "stream_options": {"include_usage": True}}) == (True, True)
    assert delivery_of({"stream": 1, "stream_options": 5}) == (False, False)
    assert delivery_of({"stream": True, "stream_options": [1]}) == (True, False)
