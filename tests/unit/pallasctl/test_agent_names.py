"""The column of names: aligned for people, and a colour for each agent that is the same every time."""

from __future__ import annotations

import pytest

from pallasctl import agent_names, text
from pallasctl.agent_names import WIDEST, AgentNames


@pytest.fixture
def on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr(agent_names, "colour_wanted", lambda: True)


def test_not_for_people_it_is_the_name_alone() -> None:
    names = AgentNames(["research", "top"])
    assert names.cell("top", end=":") == "top:"


@pytest.mark.usefixtures("on_a_terminal")
def test_names_are_aligned_and_one_that_is_too_long_moves_only_itself() -> None:
    names = AgentNames(["research"], without=["pallas", "", "x" * (WIDEST + 1)])
    assert names.cell("pallas", end=":") == "pallas:  "
    assert names.cell("x" * (WIDEST + 1)) == "x" * (WIDEST + 1)
    assert names.cell("") == " " * 8
    assert names.cell("top").endswith("mtop\x1b[0m     ")


@pytest.mark.usefixtures("on_a_terminal")
def test_every_agent_has_a_colour_of_its_own_that_stays() -> None:
    first, second = AgentNames(), AgentNames()
    cells = {name: first.cell(name) for name in ("research", "library", "top", "a", "b", "c", "d", "e")}
    assert len({cell.split("m")[0] for cell in cells.values()}) == 8
    assert first.cell("research").split("m")[0] == cells["research"].split("m")[0]
    assert second.cell("research").split("m")[0] == cells["research"].split("m")[0]
    assert first.cell("a ninth one").startswith("\x1b[38;5;")


@pytest.mark.usefixtures("on_a_terminal")
def test_without_colour_it_is_aligned_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_names, "colour_wanted", text.colour_wanted)
    monkeypatch.setenv("NO_COLOR", "1")
    assert AgentNames(["research"]).cell("top\x1b[2J") == "top\\x1b[2J"
    assert AgentNames(["research"]).cell("top") == "top     "
