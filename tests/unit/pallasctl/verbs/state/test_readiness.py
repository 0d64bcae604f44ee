"""What counts as ready, and what a table leaves out."""

from __future__ import annotations

import pytest

from fakes.control_server import agent
from pallasctl.verbs.state.readiness import MOST_IDLE, count_ready, is_available, listed


@pytest.mark.parametrize(
    ("state", "start", "desired", "available"),
    [
        ("ready", "always", "up", True),
        ("idle", "on-demand", "up", True),
        ("starting", "on-demand", "up", True),
        ("stopping", "on-demand", "up", True),
        ("stopping", "on-demand", "down", False),
        ("starting", "always", "up", False),
        ("backoff", "on-demand", "up", False),
        ("failed", "on-demand", "up", False),
    ],
)
def test_who_is_available(state: str, start: str, desired: str, available: bool) -> None:
    assert is_available(agent("a", state, start=start, desired=desired)) is available


def test_the_count_says_how_many_are_idle() -> None:
    agents = [agent("a"), agent("b", "idle"), agent("c", "failed"), agent("d", "stopped", desired="down")]
    assert count_ready(agents) == "2 of 3 agents ready (1 idle)"
    assert count_ready(agents[:1], short=True) == "1 of 1 ready"


def test_many_idle_agents_are_folded_only_where_that_is_wanted() -> None:
    few = [agent("a"), *(agent(f"i{number}", "idle") for number in range(MOST_IDLE))]
    many = [*few, agent("one-more", "idle")]
    assert listed(few, (), fold=True) == few
    assert [one["name"] for one in listed(many, (), fold=True)] == ["a"]
    assert listed(many, (), fold=False) == many
    assert [one["name"] for one in listed(many, ("ready",), fold=True)] == ["a"]
    assert len(listed(many, ("idle",), fold=True)) == MOST_IDLE + 1
