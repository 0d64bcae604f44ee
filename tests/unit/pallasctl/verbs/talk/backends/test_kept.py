"""A conversation that is kept by the chat itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pallas_control.mcp.errors import TooLargeError
from pallasctl.verbs.talk.backends.backend import Message, Text
from pallasctl.verbs.talk.backends.kept import KeptTurns, NothingAskedError

if TYPE_CHECKING:
    from collections.abc import Generator

    from pallasctl.verbs.talk.backends.backend import Happened


def talked(turns: int) -> KeptTurns[str]:
    kept: KeptTurns[str] = KeptTurns()
    for number in range(turns):
        kept.begin(Message(str(number)))
        kept.end([f"user {number}", f"assistant {number}"])
    return kept


def test_turns_that_ended_well_are_the_history() -> None:
    kept = talked(1)
    kept.begin(Message("fails"))
    kept.begin(Message("next"))
    assert kept.history == kept.rows == ["user 0", "assistant 0"]


def test_a_turn_that_is_taken_again_replaces_the_old_one_once_it_has_ended_well() -> None:
    kept = talked(2)
    assert kept.begin(None) == Message("1")
    assert kept.history == ["user 0", "assistant 0"]
    assert kept.rows[2:] == ["user 1", "assistant 1"], "it may fail"
    assert kept.begin(None) == Message("1"), "it has failed, and is taken once more"
    kept.end(["user 1", "better"])
    assert kept.rows == ["user 0", "assistant 0", "user 1", "better"]
    kept.begin(Message("2"))
    assert len(kept.history) == 4


def test_a_turn_that_failed_is_taken_again_without_touching_the_one_before() -> None:
    kept = talked(1)
    kept.begin(Message("fails"))
    assert kept.begin(None) == Message("fails")
    assert len(kept.history) == 2
    kept.end(["user", "assistant"])
    assert len(kept.rows) == 4


def test_nothing_to_take_again() -> None:
    kept = talked(1)
    kept.clear()
    assert kept.rows == []
    with pytest.raises(NothingAskedError):
        kept.begin(None)


@pytest.mark.parametrize(("turns", "number"), [(0, 0), (1, 1), (2, 1), (5, 3)])
def test_shortening_leaves_out_the_older_half(turns: int, number: int) -> None:
    kept = talked(turns)
    kept.begin(Message("next"))
    assert kept.shorten() == number
    assert kept.history[::2] == [f"user {each}" for each in range(number, turns)]


def test_shortening_before_a_turn_that_is_taken_again() -> None:
    kept = talked(2)
    kept.begin(None)
    assert (kept.shorten(), kept.history) == (1, [])
    assert kept.shorten() == 0
    kept.end(["user", "assistant"])
    assert kept.rows == ["user", "assistant"]


def test_a_conversation_that_is_too_long_begins_later_and_that_is_said() -> None:
    kept = talked(6)
    asked: list[int] = []

    def turn(_: Message) -> Generator[Happened | None]:
        asked.append(len(kept.history))
        if len(asked) < 4:
            raise TooLargeError("too large")
        yield Text("answered")

    said = list(kept.asked(Message("next"), turn))
    assert asked == [12, 6, 2, 0]
    assert ["3 oldest turns are left out" in str(each) for each in said] == [True, False, False, False]
    assert "oldest turn is left out" in str(said[2])
    assert said[3] == Text("answered")


def test_a_message_that_alone_is_too_long_is_said_so() -> None:
    kept = talked(0)

    def turn(_: Message) -> Generator[Happened | None]:
        yield Text("asked")
        raise TooLargeError("too large")

    with pytest.raises(TooLargeError):
        list(kept.asked(Message("next"), turn))
