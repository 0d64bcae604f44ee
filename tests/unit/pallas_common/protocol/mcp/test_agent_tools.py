"""Of an agent's three tools models see the one that is called after it."""

from __future__ import annotations

import pytest

from pallas_common.protocol.mcp.agent_tools import hidden_tools

ASK = {"type": "object", "properties": {"message": {"type": "string"}}}
LOOK = {"type": "object", "properties": {}}


def test_the_one_of_its_name_is_left() -> None:
    three = {"send_message": ASK, "dates": ASK, "get_health": LOOK}
    assert hidden_tools(three) == {"send_message", "get_health"}
    assert hidden_tools({"send_message": ASK, "dates": ASK}) == {"send_message"}


@pytest.mark.parametrize(
    "schemas",
    [
        {},
        {"send_message": ASK},
        {"send_message": ASK, "get_health": LOOK},
        {"send_message": ASK, "get_health": LOOK, "search": LOOK},
        {"send_message": ASK, "get_health": LOOK, "a": ASK, "b": ASK},
        {"dates": ASK, "get_health": LOOK},
    ],
)
def test_of_another_server_or_where_it_is_filtered_nothing_is_hidden(schemas: dict[str, object]) -> None:
    assert hidden_tools(schemas) == frozenset()
