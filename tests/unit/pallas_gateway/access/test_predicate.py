"""The one predicate: every verb, kind and name against every kind of principal, as one table."""

from __future__ import annotations

from itertools import product

import pytest

from pallas_gateway.access.predicate import may, may_see_agent, may_some, owns
from pallas_gateway.identity.grants import (
    ADMINISTRATION,
    EVERYTHING,
    KINDS,
    LONGEST,
    VERBS,
    Kind,
    Permission,
    Verb,
    parse_grant,
)
from pallas_gateway.identity.principal import Principal, Role
from pallas_gateway.identity.principals import ANYBODY

NAMES = (None, "jarvis", "team-a", "team-b")
"""None asks for all things of the kind."""

ALL = {(verb, kind, name) for verb in VERBS for kind in KINDS for name in NAMES}


def those(
    verbs: str, kinds: str, names: tuple[str | None, ...] = NAMES
) -> set[tuple[Verb, Kind, str | None]]:
    """Permissions of these verbs, kinds and names; `*` for all of them."""
    return {
        (verb, kind, name)
        for verb, kind, name in ALL
        if verbs in ("*", verb) and kinds in ("*", kind) and name in names
    }


def principal(role: Role, *grants: str) -> Principal:
    return Principal(
        id="p",
        name="p",
        role=role,
        agent="jarvis" if role == "agent" else None,
        grants=tuple(map(parse_grant, grants)),
    )


TABLE: list[tuple[Principal, set[tuple[Verb, Kind, str | None]]]] = [
    (principal("human"), set()),
    (principal("human", "*"), ALL),
    (ANYBODY, {each for each in ALL if each[0] != "approve"}),
    (principal("human", "view:agents"), those("view", "agents")),
    (principal("human", "view:agents:*"), those("view", "agents")),
    (principal("human", "view:agents:jarvis"), those("view", "agents", ("jarvis",))),
    (principal("human", "run:agents:team-*"), those("run", "agents", ("team-a", "team-b"))),
    (principal("human", "view:*"), those("view", "*")),
    (principal("human", "*:projects"), those("*", "projects")),
    (principal("human", "*:*:team-a"), those("*", "*", ("team-a",))),
    (principal("human", "edit:code"), those("edit", "code")),
    (principal("human", "edit:resources"), those("edit", "resources")),
    (principal("human", "approve:agents"), those("approve", "agents")),
    (
        principal("human", "view:agents", "run:agents:jarvis"),
        those("view", "agents") | those("run", "agents", ("jarvis",)),
    ),
    (principal("agent"), set()),
    (principal("agent", "run:agents:team-a"), those("run", "agents", ("team-a",))),
    (principal("agent", "run:agents"), those("run", "agents")),
    (principal("agent", "*"), those("run", "agents")),
    (principal("agent", "approve:*", "view:agents", "edit:code"), set()),
]


@pytest.mark.parametrize(
    ("who", "allowed"), TABLE, ids=lambda each: getattr(each, "role", None) and f"{each.role} {each.grants}"
)
def test_who_may_what(who: Principal, allowed: set[tuple[Verb, Kind, str | None]]) -> None:
    for verb, kind, name in ALL:
        expected = (verb, kind, name) in allowed
        assert may(who, Permission(verb, kind, name)) == expected, (verb, kind, name)
    for verb, kind in product(VERBS, KINDS):
        expected = any((verb, kind, name) in allowed for name in NAMES)
        assert may_some(who, verb, kind) == expected, (verb, kind)
    for name in ("jarvis", "team-a"):
        assert may_see_agent(who, name) == (("view", "agents", name) in allowed)


@pytest.mark.parametrize(("who", "allowed"), TABLE, ids=range(len(TABLE)))
def test_only_people_with_everything_administer(
    who: Principal, allowed: set[tuple[Verb, Kind, str | None]]
) -> None:
    assert may(who, ADMINISTRATION) == (allowed == ALL)


def test_own_things_are_an_agents_and_nobody_elses() -> None:
    agent = principal("agent", "run:agents")
    assert owns(agent, "jarvis")
    assert not owns(agent, "team-a")
    assert not owns(principal("human", "*"), "jarvis")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "view",
        "view:",
        ":agents",
        "look:agents",
        "view:agent",
        "view:agents:",
        "view:agents:a b",
        "**",
        "view:agents:a\n",
        "view:agents:[a]",
        "run:agents:" + "a" * LONGEST,
        "View:agents",
        " view:agents",
    ],
)
def test_what_is_no_grant(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_grant(text)


@pytest.mark.parametrize("text", ["*", "view:agents", "*:projects", "edit:resources:llm/x", "run:agents:a-*"])
def test_a_grant_is_written_as_it_was_read(text: str) -> None:
    assert str(parse_grant(text)) == text
    assert (parse_grant(text) == EVERYTHING) == (text == "*")
