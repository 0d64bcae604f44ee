"""Which tool a model means, and which of its calls may run."""

from __future__ import annotations

import pytest

from pallas_worker.fastagent.tools.rules import LONGEST_NAME, MOST_NAMES, refusal, resolve_name

LISTED = ("tools__echo", "others__echo", "tools__add", "read", "agent__child")


@pytest.mark.parametrize(
    ("name", "tool"),
    [
        ("tools__echo", "tools__echo"),
        ("TOOLS__Echo", "tools__echo"),
        ("add", "tools__add"),
        ("child", "agent__child"),
        ("Read", "read"),
        ("echo", None),
        ("tools__fail", None),
        ("dd", None),
        ("", None),
    ],
)
def test_a_name_means_one_tool_that_is_listed_or_none(name: str, tool: str | None) -> None:
    assert resolve_name(name, LISTED) == tool


def test_a_refusal_names_the_tools_that_there_are() -> None:
    tool = "x" * 5000
    reason = refusal(tool, ["b", "a"])
    assert reason == f"the tool {'x' * LONGEST_NAME!r} is not available to this agent; available tools: a, b"
    assert (
        refusal(tool, [])
        == f"the tool {'x' * LONGEST_NAME!r} is not available to this agent; it has no tools"
    )


def test_the_refusal_of_an_agent_with_many_tools_is_short() -> None:
    reason = refusal("nothing", [f"{number:03}{'x' * 5000}" for number in range(MOST_NAMES + 10)])
    assert reason.endswith(" and 10 more")
    assert len(reason) < (MOST_NAMES + 2) * (LONGEST_NAME + 2)
