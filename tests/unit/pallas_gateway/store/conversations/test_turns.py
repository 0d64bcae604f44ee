"""Turns in the store: what is kept at each step, whatever breaks, and who has the thread."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import insert
from sqlalchemy.exc import IntegrityError

from pallas_gateway.store.conversations.messages import history, list_messages, newest_messages
from pallas_gateway.store.conversations.records import (
    LEFT_OUT,
    REPLACED,
    NothingToRedoError,
    PendingTurn,
    Row,
    ThreadBusyError,
    ThreadGoneError,
    ToolCall,
)
from pallas_gateway.store.conversations.rows import columns_of
from pallas_gateway.store.conversations.threads import delete_thread, find_thread
from pallas_gateway.store.conversations.turns import pending_turns
from pallas_gateway.store.conversations.undo import undo_turn
from pallas_gateway.store.errors import MalformedMessageError
from pallas_gateway.store.tables import MESSAGES
from support.gateway.turns import rows
from support.gateway.turns.rows import answer, begin, fail, finish, keep, make_thread, talk, told, user

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from pallas_gateway.store.conversations.records import Thread
    from pallas_gateway.store.database import Store
    from support.gateway.turns.rows import Do

T = "thread"
CALL = Row(role="assistant", content="wait", tool_calls=(ToolCall("c1", "sums__add", '{"a": 2}'),))
RESULT = Row(role="tool", content="5", tool_call_id="c1", is_error=True)


def thread(connection: Connection) -> Thread:
    found = find_thread(connection, tenant=rows.TENANT, id=T)
    assert found is not None
    return found


def said(found: Sequence[Row]) -> list[object]:
    return [row.content for row in found]


def errors(connection: Connection) -> list[str | None]:
    return [each.error for each in rows.messages(connection, T)]


def test_a_turn_is_kept_step_by_step(do: Do) -> None:
    do(lambda it: make_thread(it, T))
    begun = do(lambda it: begin(it, T, "t1", user("2 + 3?")))
    assert (begun.first, list(begun.history), begun.thread.turn) == (1, [], "t1")
    assert do(lambda it: told(it, T)) == [
        (0, "user", "2 + 3?", "complete"),
        (1, "assistant", None, "pending"),
    ]
    assert do(lambda it: keep(it, T, "t1", [], [CALL, RESULT]))
    assert [each[3] for each in do(lambda it: told(it, T))] == ["complete", "pending", "pending"]
    assert do(lambda it: keep(it, T, "t1", [CALL, RESULT], [answer("It")]))
    assert [each[3] for each in do(lambda it: told(it, T))] == ["complete", "complete", "complete", "pending"]
    assert do(lambda it: finish(it, T, "t1", CALL, RESULT, answer("It is 5."))) == 3
    found = do(lambda it: rows.messages(it, T))
    assert [each.row for each in found] == [user("2 + 3?"), CALL, RESULT, answer("It is 5.")]
    assert {each.status for each in found} == {"complete"}
    after = do(thread)
    assert (after.length, after.turn, after.process) == (4, None, None)
    assert after.last_turn == after.active
    assert after.active > after.created
    begun = do(lambda it: begin(it, T, "t2", user("and 7?")))
    assert (said(begun.history), begun.first) == (["2 + 3?", "wait", "5", "It is 5."], 5)


def test_all_that_a_message_holds_comes_back(do: Do) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:x"}}
    parts: list[dict[str, Any]] = [{"type": "text", "text": "ünï\u2028"}, image]
    odd = Row(role="assistant", content="a\0b\ud800c", state={"k\0": ["\udfff", {"n": 1e300}]})
    do(lambda it: make_thread(it, T, title="<script>\"'"))
    do(lambda it: talk(it, T, "t1", "x", Row(role="assistant", content=parts, state={"a": [1, None]}), odd))
    found = do(lambda it: rows.messages(it, T))
    assert found[1].row == Row(role="assistant", content=parts, state={"a": [1, None]})
    assert found[2].row == Row(
        role="assistant", content="a\ufffdb\ufffdc", state={"k\ufffd": ["\ufffd", {"n": 1e300}]}
    ), "what PostgreSQL cannot store is replaced in both"
    assert found[1].row.text == "ünï\u2028"
    assert do(thread).title == "<script>\"'"


def test_a_thread_is_for_one_turn_at_a_time(do: Do) -> None:
    do(lambda it: make_thread(it, T))
    do(lambda it: begin(it, T, "t1", user("one")))
    with pytest.raises(ThreadBusyError) as busy:
        do(lambda it: begin(it, T, "t2", user("two")))
    assert (busy.value.turn, busy.value.process) == ("t1", rows.PROCESS)
    assert not do(lambda it: keep(it, T, "t2", [], [answer("no")]))
    assert do(lambda it: finish(it, T, "t2", answer("no"))) is None
    assert not do(lambda it: fail(it, T, "t2"))
    assert [each[2] for each in do(lambda it: told(it, T))] == ["one", None]
    do(lambda it: finish(it, T, "t1", answer("1")))
    with pytest.raises(ThreadGoneError):
        do(lambda it: begin(it, "nowhere", "t3", user("one")))


def test_of_many_at_once_one_has_the_thread(store: Store, do: Do) -> None:
    do(lambda it: make_thread(it, T))

    async def race() -> list[object]:
        return await asyncio.gather(
            *(
                store.write(lambda it, turn=f"t{n}": begin(it, T, turn, user(turn)))  # type: ignore[misc]
                for n in range(8)
            ),
            return_exceptions=True,
        )

    found = asyncio.run(race())
    assert sum(isinstance(each, ThreadBusyError) for each in found) == 7
    assert len(do(lambda it: told(it, T))) == 2


def test_a_call_that_is_made_again_changes_nothing(do: Do) -> None:
    """Nobody knows of a commit whose answer was lost: the same call again finds what it did."""
    do(lambda it: make_thread(it, T))
    do(lambda it: talk(it, T, "t0", "zero", "0"))
    first = do(lambda it: begin(it, T, "t1", user("one")))
    assert do(lambda it: begin(it, T, "t1", user("one"))) == first
    for _ in range(2):
        assert do(lambda it: keep(it, T, "t1", [CALL, RESULT], [answer("1")]))
    for _ in range(2):
        assert do(lambda it: finish(it, T, "t1", CALL, RESULT, answer("1."))) == 5
    assert not do(lambda it: fail(it, T, "t1")), "it has finished"
    do(lambda it: begin(it, T, "t2", user("two")))
    for _ in range(2):
        assert do(lambda it: fail(it, T, "t2"))
    assert do(lambda it: finish(it, T, "t2", answer("2"))) is None, "it has failed"
    assert [(each[0], each[2], each[3]) for each in do(lambda it: told(it, T))] == [
        (0, "zero", "complete"),
        (1, "0", "complete"),
        (2, "one", "complete"),
        (3, "wait", "complete"),
        (4, "5", "complete"),
        (5, "1.", "complete"),
        (6, "two", "complete"),
        (7, None, "error"),
    ]


def test_what_failed_is_no_part_of_the_next_turn(do: Do) -> None:
    do(lambda it: make_thread(it, T))
    do(lambda it: begin(it, T, "t1", user("one")))
    do(lambda it: keep(it, T, "t1", [CALL, RESULT], [answer("ha")]))
    assert do(lambda it: fail(it, T, "t1", "it broke", [CALL, RESULT], [answer("half")]))
    assert [each[2:] for each in do(lambda it: told(it, T))] == [
        ("one", "complete"),
        ("wait", "complete"),
        ("5", "complete"),
        ("half", "error"),
    ]
    assert do(errors) == [None, None, None, "it broke"]
    do(lambda it: begin(it, T, "t2", user("two")))
    result = Row(role="tool", content="", tool_call_id="c1")
    do(lambda it: keep(it, T, "t2", [], [CALL, result]))
    assert do(lambda it: fail(it, T, "t2", "stopped", [], [answer("wai"), result]))
    found = do(lambda it: told(it, T))
    assert [each[2:] for each in found[4:]] == [("two", "complete"), ("wai", "error"), ("", "error")]
    begun = do(lambda it: begin(it, T, "t3", user("three")))
    assert said(begun.history) == ["one", "wait", "5", "two"]
    assert [each[0] for each in do(lambda it: told(it, T))] == list(range(9))


def test_rounds_that_become_shorter_leave_no_gap_and_nothing_twice(do: Do) -> None:
    do(lambda it: make_thread(it, T))
    do(lambda it: begin(it, T, "t1", user("one")))
    do(lambda it: keep(it, T, "t1", [], [CALL, RESULT, answer("more")]))
    do(lambda it: keep(it, T, "t1", [], [answer("less")]))
    do(lambda it: fail(it, T, "t1"))
    assert do(thread).length == 4
    assert do(lambda it: begin(it, T, "t2", user("two"))).first == 5
    assert [each[0] for each in do(lambda it: told(it, T))] == list(range(6))


def test_after_a_crash_what_is_pending_is_found_and_fails(do: Do) -> None:
    for name in (T, "other"):
        do(lambda it, name=name: make_thread(it, name))  # type: ignore[misc]
        do(lambda it, name=name: begin(it, name, f"turn of {name}", user("one")))  # type: ignore[misc]
    do(lambda it: keep(it, T, f"turn of {T}", [], [CALL, Row(role="tool", tool_call_id="c1")]))
    do(lambda it: finish(it, "other", "turn of other", answer("1")))
    [left] = do(pending_turns)
    assert left == PendingTurn(rows.TENANT, T, f"turn of {T}", rows.PROCESS)
    assert do(lambda it: fail(it, T, left.turn, "nobody works on it"))
    assert do(pending_turns) == []
    assert [each[3] for each in do(lambda it: told(it, T))] == ["complete", "error", "error"]
    assert do(lambda it: begin(it, T, "t2", user("two"))).first == 4


def test_rows_that_the_answer_does_not_have_are_left_out_of_it(do: Do) -> None:
    do(lambda it: make_thread(it, T))
    do(lambda it: begin(it, T, "t1", user("one")))
    do(lambda it: keep(it, T, "t1", [CALL, RESULT], [answer("more")]))
    assert do(lambda it: finish(it, T, "t1", answer("1"))) == 1
    assert [each[3] for each in do(lambda it: told(it, T))] == ["complete", "complete", "error", "error"]
    assert do(errors)[2:] == [LEFT_OUT, LEFT_OUT]
    do(lambda it: begin(it, T, "t2", redo=True))
    do(lambda it: finish(it, T, "t2", answer("2")))
    assert do(errors)[:4] == [REPLACED, REPLACED, LEFT_OUT, LEFT_OUT]
    with pytest.raises(ValueError, match="has said something"):
        do(lambda it: finish(it, T, "t2"))


def test_a_retry_takes_the_place_of_a_turn_when_it_has_ended_well(do: Do) -> None:
    do(lambda it: make_thread(it, T))
    with pytest.raises(NothingToRedoError):
        do(lambda it: begin(it, T, "t0", redo=True))
    do(lambda it: talk(it, T, "t1", "one", "1"))
    do(lambda it: talk(it, T, "t2", "two", "bad"))
    begun = do(lambda it: begin(it, T, "t3", redo=True))
    assert (said(begun.history), begun.first) == (["one", "1"], 5)
    assert do(lambda it: begin(it, T, "t3", redo=True)) == begun
    do(lambda it: fail(it, T, "t3"))
    assert [each[2] for each in do(lambda it: told(it, T)) if each[3] == "complete"] == [
        "one",
        "1",
        "two",
        "bad",
    ]
    do(lambda it: begin(it, T, "t4", redo=True))
    do(lambda it: keep(it, T, "t4", [CALL, RESULT], [answer("go")]))
    assert [each[3] for each in do(lambda it: told(it, T))][6:] == ["pending"] * 4
    do(lambda it: finish(it, T, "t4", answer("good")))
    assert [each[2] for each in do(lambda it: told(it, T)) if each[3] == "complete"] == [
        "one",
        "1",
        "two",
        "good",
    ]
    assert do(errors)[2:4] == [REPLACED, REPLACED]
    assert [each[0] for each in do(lambda it: told(it, T))] == list(range(10))


def test_a_turn_that_never_was_leaves_no_trace(do: Do) -> None:
    def undo(connection: Connection, turn: str, *, with_thread: bool) -> bool:
        return undo_turn(connection, tenant=rows.TENANT, thread=T, turn=turn, with_thread=with_thread)

    do(lambda it: make_thread(it, T))
    do(lambda it: talk(it, T, "t1", "one", "1"))
    do(lambda it: begin(it, T, "t2", user("two")))
    assert not do(lambda it: undo(it, "t1", with_thread=True))
    assert do(lambda it: undo(it, "t2", with_thread=True))
    assert (do(thread).length, do(thread).turn, len(do(lambda it: told(it, T)))) == (2, None, 2)
    assert do(lambda it: begin(it, T, "t3", user("three"))).first == 3
    do(lambda it: fail(it, T, "t3"))
    do(lambda it: delete_thread(it, tenant=rows.TENANT, id=T))
    do(lambda it: make_thread(it, T))
    do(lambda it: begin(it, T, "t4", user("four")))
    assert do(lambda it: undo(it, "t4", with_thread=True))
    assert do(lambda it: find_thread(it, tenant=rows.TENANT, id=T)) is None


def test_a_turn_of_a_thread_that_is_deleted_is_told_so(do: Do) -> None:
    do(lambda it: make_thread(it, T))
    do(lambda it: begin(it, T, "t1", user("one")))
    assert do(lambda it: delete_thread(it, tenant=rows.TENANT, id=T))
    assert not do(lambda it: delete_thread(it, tenant=rows.TENANT, id=T))
    assert not do(lambda it: keep(it, T, "t1", [], [answer("1")]))
    assert do(lambda it: finish(it, T, "t1", answer("1"))) is None
    assert do(lambda it: told(it, T)) == [], "messages go with their thread"


def test_an_index_is_there_once_and_a_role_is_one(do: Do) -> None:
    do(lambda it: make_thread(it, T))
    do(lambda it: talk(it, T, "t1", "one", "1"))
    for index, row, thread_ in ((1, user("x"), T), (2, Row(role="robot"), T), (0, user("x"), "nowhere")):
        columns = columns_of(
            rows.TENANT, thread_, index, "t", row, status="complete", created=do(thread).created
        )
        with pytest.raises(IntegrityError):
            do(lambda it, columns=columns: it.execute(insert(MESSAGES), columns))  # type: ignore[misc]


def test_a_row_that_is_no_messages_is_told_and_begins_no_turn(do: Do) -> None:
    do(lambda it: make_thread(it, T))
    do(lambda it: talk(it, T, "t1", "one", "1"))
    for wrong in (
        {"content": "{"},
        {"content": "[1]"},
        {"content": "[" * 9999},
        {"content": None, "tool_calls": '[{"id": 1}]'},
        {"tool_calls": None, "state": "[]"},
    ):
        spoil = MESSAGES.update().where(MESSAGES.c.turn_index == 1).values(**wrong)
        do(lambda it, spoil=spoil: it.execute(spoil))  # type: ignore[misc]
        for read in (
            lambda it: list_messages(it, tenant=rows.TENANT, thread=T, limit=9),
            lambda it: history(it, tenant=rows.TENANT, thread=T),
        ):
            with pytest.raises(MalformedMessageError, match="message 1 of thread thread"):
                do(read)
        with pytest.raises(MalformedMessageError):
            do(lambda it: begin(it, T, "t2", user("two")))
        assert do(thread).turn is None


def test_the_newest_messages_are_read_as_far_as_they_are_small(do: Do) -> None:
    do(lambda it: make_thread(it, T))
    do(lambda it: talk(it, T, "t1", "one", "1"))
    large = Row(role="assistant", content="x", tool_calls=(ToolCall("c", "s__t", "y" * 200),), state={"a": 1})
    do(lambda it: talk(it, T, "t2", "z" * 200, large, "2"))
    found = do(lambda it: newest_messages(it, tenant=rows.TENANT, thread=T, limit=4, longest=100))
    assert [(each.turn_index, each.row, is_large) for each, is_large in found] == [
        (1, answer("1"), False),
        (2, Row(role="user"), True),
        (3, Row(role="assistant", content="x"), True),
        (4, answer("2"), False),
    ]


def test_of_large_messages_few_are_read_at_a_time(do: Do) -> None:
    do(lambda it: make_thread(it, T))
    do(lambda it: talk(it, T, "t1", "a" * 100, "b" * 100))
    do(lambda it: talk(it, T, "t2", "c" * 1000, "d"))

    def read(after: int, longest: int | None) -> list[int]:
        found = do(
            lambda it: list_messages(it, tenant=rows.TENANT, thread=T, after=after, limit=10, longest=longest)
        )
        return [each.turn_index for each in found]

    assert read(-1, None) == [0, 1, 2, 3]
    assert read(-1, 210) == [0, 1]
    assert read(1, 210) == [2], "one at least"
    assert read(2, 210) == [3]
    assert read(3, 210) == []
