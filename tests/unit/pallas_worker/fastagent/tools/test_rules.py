"""Which tool a model means, which of its calls run, are refused or held, and what may be said of tools."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pallas_worker.fastagent.tools.rules import (
    HOLD,
    LONGEST_NAME,
    MOST_NAMES,
    RUN,
    Globs,
    Patterns,
    PendingCall,
    Refuse,
    check_patterns,
    judge,
    refusal,
    resolve_name,
)
from pallas_worker.interface.errors import ArgumentError

if TYPE_CHECKING:
    from pallas_worker.fastagent.tools.rules import Verdict

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


def judged(tool: str, *hold: str, can_wait: bool = True) -> Verdict:
    call = PendingCall(
        agent="demo",
        id="1",
        server=None,
        tool=tool,
        arguments={},
        available=LISTED,
        hold=Patterns(hold),
        can_wait=can_wait,
    )
    return asyncio.run(judge(call))


def test_a_call_runs_unless_something_is_against_it() -> None:
    assert judged("tools__echo") == RUN
    assert judged("tools__echo", "tools__add", "others__*") == RUN
    assert judged("tools__fail") == Refuse(refusal("tools__fail", LISTED))


@pytest.mark.parametrize("pattern", ["tools__echo", "tools__*", "tools__e*", "*"])
def test_a_call_is_held_where_the_turn_can_end_there_and_else_refused(pattern: str) -> None:
    assert judged("tools__echo", "nothing", pattern) == HOLD
    assert judged("tools__fail", pattern) == Refuse(refusal("tools__fail", LISTED)), "there is no such tool"
    verdict = judged("tools__echo", pattern, can_wait=False)
    assert isinstance(verdict, Refuse)
    assert verdict.reason == (
        "the tool 'tools__echo' may only be called after an approval, "
        "and a call inside the agent 'demo' cannot wait for one"
    )


@pytest.mark.parametrize(
    ("patterns", "tool", "meant"),
    [
        ((), "tools__echo", False),
        (("tools__ech",), "tools__echo", False),
        (("tools__echo",), "tools__echo2", False),
        (("Tools__*",), "tools__echo", False),
        (("tools__*",), "tools_echo", False),
        (("[a-z]*",), "tools__echo", False),
        (("a", "tools__*"), "tools__", True),
    ],
)
def test_a_star_at_the_end_means_all_that_begin_so_and_nothing_else_is_special(
    patterns: tuple[str, ...], tool: str, meant: bool
) -> None:
    assert Patterns(patterns).match(tool) is meant


def test_patterns_that_mean_something_are_taken() -> None:
    check_patterns("hold", ("tools__echo", "others__*", "*", "rea*"), LISTED)
    check_patterns("hold", ("*",), ())
    check_patterns("hold", (), ())
    check_patterns("hold", ("down__echo", "down__*"), LISTED, unreachable={"down": "refused"})


@pytest.mark.parametrize(
    ("pattern", "complaint"),
    [
        (
            "tools__fail",
            "hold: 'tools__fail' is no tool of this agent; it has agent__child, others__echo, read,",
        ),
        ("tools__x*", "hold: 'tools__x*' is no tool of this agent"),
        ("down__echo", "hold: 'down__echo' is no tool of this agent"),
        ("", "hold: '' must be a tool's name, or the beginning of names and *"),
        ("*__echo", "must be a tool's name, or the beginning of names and *"),
        ("tools__**", "must be a tool's name, or the beginning of names and *"),
        ("y" * 5000, f"hold: '{'y' * LONGEST_NAME}' is no tool"),
    ],
)
def test_a_pattern_that_means_nothing_is_named(pattern: str, complaint: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        check_patterns("hold", ("read", pattern), LISTED)
    assert complaint in str(caught.value)
    assert caught.value.field == "hold"
    assert len(str(caught.value)) < 1000


def test_of_an_agent_without_tools_none_can_be_named() -> None:
    with pytest.raises(ArgumentError, match="'a' is no tool of this agent; it has none"):
        check_patterns("hold", ("a",), ())


@pytest.mark.parametrize(
    ("pattern", "tool", "permitted"),
    [
        ("web__echo", "web__echo", True),
        ("web__echo", "web__echoes", False),
        ("web__echo", "Web__echo", False),
        ("web__*", "web__", True),
        ("web__*", "web__a\nb", True),
        ("web__*", "other__web__a", False),
        ("*__read*", "files__read_text", True),
        ("web__?", "web__a", True),
        ("web__?", "web__ab", False),
        ("web__[ab]", "web__a", False),
        ("web__[ab]", "web__[ab]", True),
        ("*", "anything", True),
        ("", "anything", False),
        ("", "", True),
    ],
)
def test_a_pattern_means_tools_by_stars_and_question_marks(pattern: str, tool: str, permitted: bool) -> None:
    assert Globs((pattern,)).permit(tool) is permitted
    assert Globs(("none", pattern)).permit(tool) is permitted
    assert Globs(()).permit(tool) is False


def test_patterns_that_mean_no_tool_are_found() -> None:
    assert Globs(("tools__*", "gone__*", "?ead")).void(LISTED) == ["gone__*"]


def test_a_name_takes_no_long_time_whatever_the_pattern_is() -> None:
    assert not Globs(("*a" * 50 + "b",)).permit("a" * 5000)
