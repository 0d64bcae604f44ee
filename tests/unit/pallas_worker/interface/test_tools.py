"""The tools that a worker lists, and the checks of their arguments."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from pallas_worker.interface.errors import ArgumentError
from pallas_worker.interface.history import History, LeftOut, Row
from pallas_worker.interface.tools import (
    GET_HEALTH_SCHEMA,
    SEND_MESSAGE_SCHEMA,
    history_prompt,
    list_tools,
    parse_send_message,
    refuse_arguments,
)
from support.data.image_data import PNG


def test_the_listed_tools() -> None:
    tools = {tool.name: tool for tool in list_tools("harper", "Harper", "Knows the weather.")}
    assert list(tools) == ["send_message", "harper", "get_health"]
    assert tools["harper"].description == "Knows the weather."
    assert tools["harper"].input_schema == tools["send_message"].input_schema == SEND_MESSAGE_SCHEMA
    assert tools["get_health"].input_schema == GET_HEALTH_SCHEMA
    assert tools["get_health"].description == (
        "Returns the health status of this agent and its downstream dependencies."
    )
    assert history_prompt("harper").name == "harper_history"


@pytest.mark.parametrize("name", ["send_message", "get_health"])
def test_an_agent_named_like_a_tool_gets_no_second_one(name: str) -> None:
    assert [tool.name for tool in list_tools(name, "T", "D")] == ["send_message", "get_health"]


@pytest.mark.parametrize("schema", [SEND_MESSAGE_SCHEMA, GET_HEALTH_SCHEMA])
def test_the_schemas_are_schemas(schema: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)


def test_all_arguments_of_send_message() -> None:
    arguments = {
        "message": "hello",
        "images": [{"data": PNG, "mime_type": "image/png"}],
        "history": [{"role": "user", "content": "a"}, {"role": "nobody"}],
        "conversation_id": "c-1",
    }
    jsonschema.validate(arguments | {"history": arguments["history"][:1]}, SEND_MESSAGE_SCHEMA)
    request = parse_send_message(arguments)
    assert (request.message, request.conversation_id, len(request.images)) == ("hello", "c-1", 1)
    assert request.history.rows == (Row("user", "a"),)
    assert request.history.left_out == (
        LeftOut(1, 'role must be "user", "assistant" or "tool", not \'nobody\''),
    )


def test_an_optional_argument_may_be_null() -> None:
    request = parse_send_message({"message": "x", "images": None, "history": None, "conversation_id": None})
    assert (request.images, request.history, request.conversation_id) == ((), History(), None)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (None, "message is required and must be a string"),
        ({}, "message is required and must be a string"),
        ({"message": 3}, "message is required and must be a string"),
        ({"message": ""}, "message is empty and there are no images"),
        ({"message": "x", "conversation_id": 5}, "conversation_id must be a string"),
        ({"message": "x", "history": "y"}, "history must be a list"),
        ({"message": "x", "images": [{}]}, r"images\[0\].data must be"),
        ({"massage": "x"}, "unknown argument 'massage'; known are message, images, history, conversation_id"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any] | None, text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        parse_send_message(arguments)


def test_get_health_takes_no_argument() -> None:
    refuse_arguments(None)
    refuse_arguments({})
    with pytest.raises(ArgumentError, match="unknown argument 'now'; this tool takes none"):
        refuse_arguments({"now": True})
