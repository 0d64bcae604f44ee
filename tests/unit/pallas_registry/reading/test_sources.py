"""`module:` and `card:`: what each text means, and what is no source."""

from __future__ import annotations

import pytest

from pallas_common.protocol.agent.source import AgentSource
from pallas_registry.reading.rules import Complaint
from pallas_registry.reading.sources import card_source, module_source


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("jarvis", AgentSource("module", "jarvis")),
        ("agents.jarvis", AgentSource("module", "agents.jarvis")),
        ("agents.jarvis:app", AgentSource("module", "agents.jarvis", "app")),
        ("agents.jarvis:create()", AgentSource("module", "agents.jarvis", "create", is_factory=True)),
        ("jarvis.py", AgentSource("file", "jarvis.py")),
        ("math.py", AgentSource("file", "math.py")),
        ("agents/my-jarvis.py", AgentSource("file", "agents/my-jarvis.py")),
        ("agents/my jarvis.py:app", AgentSource("file", "agents/my jarvis.py", "app")),
        ("agents/a.py:create()", AgentSource("file", "agents/a.py", "create", is_factory=True)),
    ],
)
def test_a_module(text: str, expected: AgentSource) -> None:
    assert module_source(text) == expected
    assert str(expected) == text
    assert expected.key == "module"


@pytest.mark.parametrize(
    ("text", "path"),
    [("./a.py", "a.py"), ("agents//./a.py", "agents/a.py"), ("x/../agents/a.py", "agents/a.py")],
)
def test_a_path_is_as_short_as_it_can_be(text: str, path: str) -> None:
    assert module_source(text) == AgentSource("file", path)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "is not a Python module's dotted path"),
        ("a..b", "is not a Python module's dotted path; write it as in `agents.jarvis`, or the file"),
        ("a.class", "is not a Python module's dotted path"),
        ("agents.a-b", "it has a hyphen; name the file, `agents/a-b.py`, or rename it: `a_b`"),
        ("math", "`math` is Python's own module; rename yours"),
        ("logging.jarvis:app", "`logging` is Python's own module"),
        ("/srv/agents/a.py", "is not in the working directory; write a path that is relative to it"),
        ("~/a.py", "is not in the working directory"),
        ("../a.py", "leads out of the working directory; move the file into it"),
        ("agents/../../a.py", "leads out of the working directory"),
        ("agents/a", "is no Python file; write `agents/a.py`"),
        ("agents/", "is no Python file; write `agents.py`"),
        ("cards/a.md", "is no Python file; write an agent card behind `card:` instead"),
        ("my-a.md", "is no Python module; write an agent card behind `card:` instead"),
        ("a\x1b[31m/b.py", "is not a path"),
        ("a:", "'' is not the name of a FastAgent in 'a'; write the name behind the colon"),
        ("a:b:c", "'b:c' is not the name of a FastAgent"),
        ("a:b.c", "'b.c' is not the name of a FastAgent"),
        ("a:class", "'class' is not the name of a FastAgent"),
        ("a:()", "'()' is not the name of a FastAgent"),
        ("a:b(", "'b(' has arguments; write `a:b()`: none are given"),
        ("a:b(1)", "'b(1)' has arguments; write `a:b()`"),
        ("a:b(1)()", "'b(1)()' is no call; write `a:b()`"),
        ("a" * 1001, "has 1001 characters"),
    ],
)
def test_what_is_no_module(text: str, part: str) -> None:
    found = module_source(text)
    assert isinstance(found, Complaint)
    assert part in f"{found.message}; {found.remedy}"


@pytest.mark.parametrize(
    ("text", "path"),
    [("cards/a.md", "cards/a.md"), ("cards/", "cards"), ("./my-cards/a.yaml", "my-cards/a.yaml"), (".", ".")],
)
def test_a_card(text: str, path: str) -> None:
    assert card_source(text) == AgentSource("card", path)
    assert AgentSource("card", path).key == "card"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "is empty; name an agent card"),
        ("https://example.com/a.md", "is a URL; download the card, look at it, and name the file"),
        ("agents/a.py", "is Python code, no agent card; write it behind `module:` instead"),
        ("/srv/a.md", "is not in the working directory"),
        ("../cards", "leads out of the working directory"),
        ("x" * 1001, "has 1001 characters"),
    ],
)
def test_what_is_no_card(text: str, part: str) -> None:
    found = card_source(text)
    assert isinstance(found, Complaint)
    assert part in f"{found.message}; {found.remedy}"
