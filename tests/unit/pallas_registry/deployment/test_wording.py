"""Words that several commands share: numbers of things, and names that nobody has."""

from __future__ import annotations

import pytest

from pallas_common.problems import counted, no_such_agent


@pytest.mark.parametrize(("number", "said"), [(0, "0 agents"), (1, "1 agent"), (2, "2 agents")])
def test_a_number_of_things(number: int, said: str) -> None:
    assert counted(number, "agent") == said


@pytest.mark.parametrize(
    ("names", "known", "said"),
    [
        (["jarvs"], ["jarvis", "research"], "there is no agent 'jarvs'; did you mean 'jarvis'?"),
        (["x"], ["jarvis", "research"], "there is no agent 'x'; the agents are: jarvis, research"),
        (["jarvs", "x"], ["jarvis"], "there are no agents 'jarvs', 'x'; the agents are: jarvis"),
        (["x"], [], "there is no agent 'x'; the agents are: none"),
        (["a\u202eb\n"], ["c"], r"there is no agent 'a\u202eb\n'; the agents are: c"),
    ],
)
def test_agents_that_are_not_there(names: list[str], known: list[str], said: str) -> None:
    assert no_such_agent(names, known) == said
