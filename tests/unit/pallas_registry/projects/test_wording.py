"""Names and descriptions pass the rules of agents.yaml, whatever they are made of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pallas_registry.projects import wording
from pallas_registry.projects.code.facts import Definition, Source
from pallas_registry.reading import rules


def source(
    text: str | None, name: str | None = "scout", file: str = "a.py", docstring: str | None = None
) -> Source:
    served = Definition(name=name, kind="agent", file=file, line=1, text=text)
    return Source(
        key="module",
        value=file,
        file=file,
        line=1,
        definitions=(served,),
        served=served,
        free_name=True,
        docstring=docstring,
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("You are a careful researcher. Look things up.", "A careful researcher"),
        ("\n    Given a URL,\n    summarise it.  Be brief.", "Given a URL, summarise it"),
        ("# Title\n{{currentDate}} **Plans** trips", "Title Plans trips"),
        ("Version 3.12 of it", "Version 3.12 of it"),
        ("x" * 50 + " " + "y" * 80, "X" + "x" * 49 + "…"),
        ("Use the key sk-abcdefghijklmnopqrstuvwxyz123456", None),
        ("   ", None),
        (None, None),
    ],
)
def test_descriptions(text: str | None, found: str | None) -> None:
    assert wording.description(source(text)) == found


def test_the_docstring_of_the_file_stands_in() -> None:
    assert wording.description(source(None, docstring="Plans trips. With care.")) == "Plans trips"


@pytest.mark.parametrize(
    ("name", "file", "found"),
    [
        ("scout", "a.py", "scout"),
        ("default", "my-plans.py", "my-plans"),
        ("agent", "trips/agent.py", "trips"),
        ("Zürich guide", "a.py", "Zurich-guide"),
        ("send_message", "a.py", "send_message-agent"),
        ("旅行", "trips.py", "trips"),
        (None, "src/agent.py", "agent"),
    ],
)
def test_names(name: str | None, file: str, found: str) -> None:
    assert wording.wanted_name(source(None, name, file)) == found


@given(st.text(max_size=200), st.text(max_size=80), st.text(min_size=1, max_size=30))
def test_whatever_the_code_says_passes_the_rules(text: str, name: str, file: str) -> None:
    made = source(text, name, f"{file}.py")
    description = wording.description(made)
    assert description is None or rules.published_text(description) is None
    for entry in (wording.wanted_name(made), wording.name_of_file(made), wording.name_of_path(made)):
        assert rules.agent_name(entry) is None
        assert rules.published_text(wording.title(entry)) is None
    deployment = wording.deployment_name(text)
    assert rules.deployment_name(deployment) is None
    assert rules.namespace(f"local.{deployment}") is None
