"""Threads in the store: made once, listed by their activity in pages, renamed, imported, forgotten."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import update

from pallas_gateway.store.conversations import threads
from pallas_gateway.store.conversations.records import UNFINISHED, Message, Row
from pallas_gateway.store.conversations.retention import (
    Deleted,
    agent_keys,
    delete_threads_of_agent,
    forget_threads,
)
from pallas_gateway.store.tables import MESSAGES, THREADS
from support.gateway.turns import rows
from support.gateway.turns.rows import TENANT, answer, begin, finish, make_thread, talk, told, user

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy import Connection

    from pallas_gateway.store.conversations.records import Cursor, Thread
    from support.gateway.turns.rows import Do

MOMENT = dt.datetime(2026, 3, 12, 10, tzinfo=dt.UTC)


def page(
    connection: Connection,
    *,
    owner: str | None = "ada",
    keys: Collection[str] | None = None,
    query: str | None = None,
    after: Cursor | None = None,
    limit: int = 100,
) -> list[Thread]:
    return threads.list_threads(
        connection, tenant=TENANT, owner=owner, agent_keys=keys, query=query, after=after, limit=limit
    )


def ids(found: list[Thread]) -> list[str]:
    return [each.id for each in found]


def age(connection: Connection, thread: str, moment: dt.datetime) -> None:
    connection.execute(update(THREADS).where(THREADS.c.id == thread).values(active=moment))


def test_a_thread_is_made_once_for_its_id_and_for_its_session(do: Do) -> None:
    made = do(lambda it: make_thread(it, "one", title="Hello", session="s"))
    assert (made.title, made.session, made.length, made.last_turn, made.turn) == ("Hello", "s", 0, None, None)
    assert made.created == made.active
    assert do(lambda it: make_thread(it, "one", title="Other")) == made
    assert do(lambda it: make_thread(it, "two", session="s")) == made, "the session's"
    with pytest.raises(ValueError, match="another thread's"):
        do(lambda it: make_thread(it, "one", owner="eve"))
    for number, (owner, key) in enumerate((("eve", None), ("ada", "uid"))):
        assert (
            do(
                lambda it, id_=f"s{number}", owner=owner, key=key: make_thread(  # type: ignore[misc]
                    it, id_, owner=owner, key=key, session="s"
                )
            ).id
            == f"s{number}"
        )
    found = do(
        lambda it: threads.find_session(it, tenant=TENANT, owner="ada", agent_key="jarvis", session="s")
    )
    assert found == made
    for other in ({"owner": "ada", "agent_key": "friday"}, {"owner": "bob", "agent_key": "jarvis"}):
        assert (
            do(
                lambda it, other=other: threads.find_session(it, tenant=TENANT, session="s", **other)  # type: ignore[misc]
            )
            is None
        )
    assert do(lambda it: threads.find_thread(it, tenant="another", id="one")) is None


def test_pages_have_each_thread_once_also_where_times_are_the_same(do: Do) -> None:
    def fill(connection: Connection) -> None:
        for number in range(10):
            make_thread(connection, f"t{number}")
            age(connection, f"t{number}", MOMENT + dt.timedelta(seconds=number // 4))

    do(fill)
    expected = ["t9", "t8", *(f"t{n}" for n in (7, 6, 5, 4)), *(f"t{n}" for n in (3, 2, 1, 0))]
    seen: list[str] = []
    after = None
    while found := do(lambda it, after=after: page(it, after=after, limit=3)):  # type: ignore[misc]
        seen += ids(found)
        after = found[-1].cursor
        if len(seen) == 3:  # what comes between two pages moves nothing
            do(lambda it: make_thread(it, "new"))
    assert seen == expected
    assert ids(do(lambda it: page(it, limit=1))) == ["new"]


def test_a_list_has_what_is_asked_for(do: Do) -> None:
    def fill(connection: Connection) -> None:
        for id_, owner, key in (
            ("a", "ada", "jarvis"),
            ("b", "ada", "friday"),
            ("c", "eve", "jarvis"),
        ):
            make_thread(connection, id_, owner=owner, agent=key)

    do(fill)
    assert ids(do(page)) == ["b", "a"]
    assert ids(do(lambda it: page(it, owner=None))) == ["c", "b", "a"]
    assert ids(do(lambda it: page(it, owner=None, keys=["jarvis"]))) == ["c", "a"]
    assert ids(do(lambda it: page(it, keys=["friday", "nobody"]))) == ["b"]
    assert do(lambda it: page(it, owner=None, keys=[])) == []
    assert (
        do(
            lambda it: threads.list_threads(
                it, tenant="other", owner=None, agent_keys=None, query=None, after=None, limit=9
            )
        )
        == []
    )


def test_activity_moves_a_thread_to_the_front_and_turns_under_way_come_first_of_the_newest(do: Do) -> None:
    def fill(connection: Connection) -> None:
        for name in "abcd":
            make_thread(connection, name)
        make_thread(connection, "other", owner="eve")
        begin(connection, "other", "t0", user("one"))
        begin(connection, "a", "t1", user("one"))

    def newest(connection: Connection) -> list[str]:
        return ids(
            threads.newest_threads(connection, tenant=TENANT, owner="ada", agent_keys=["jarvis"], limit=3)
        )

    do(fill)
    assert ids(do(page)) == ["d", "c", "b", "a"]
    assert do(newest) == ["a", "d", "c"]
    do(lambda it: finish(it, "a", "t1", answer("1")))
    assert ids(do(page)) == ["a", "d", "c", "b"]
    do(lambda it: begin(it, "b", "t2", user("one")))
    assert do(newest) == ["b", "a", "d"]


def test_a_thread_is_imported_as_it_was(do: Do) -> None:
    said = [
        Message(turn_index=9, turn="t1", row=user("one"), status="complete", created=MOMENT),
        Message(turn_index=9, turn="t1", row=answer("1"), status="pending", created=MOMENT),
        Message(turn_index=2, turn="t2", row=answer("2"), status="error", error="why", created=MOMENT),
    ]

    def put(connection: Connection, owner: str = "ada") -> Thread:
        return threads.import_thread(
            connection,
            tenant=TENANT,
            id="i",
            agent="jarvis",
            agent_key="jarvis",
            owner=owner,
            title="T",
            messages=said,
        )

    made = do(put)
    assert do(put) == made
    with pytest.raises(ValueError, match="another thread's"):
        do(lambda it: put(it, "eve"))
    found = do(lambda it: rows.messages(it, "i"))
    assert [(each.turn_index, each.row, each.status, each.error) for each in found] == [
        (0, user("one"), "complete", None),
        (1, answer("1"), "error", UNFINISHED),
        (2, answer("2"), "error", "why"),
    ]
    assert {each.created for each in found} == {MOMENT}
    assert made.length == 3
    begun = do(lambda it: begin(it, "i", "t3", user("next")))
    assert ([row.content for row in begun.history], begun.first) == (["one"], 4)


def test_old_threads_are_forgotten_and_not_those_with_a_turn(do: Do) -> None:
    def fill(connection: Connection) -> None:
        for number, name in enumerate(("older", "old", "busy", "new")):
            make_thread(connection, name, owner=name)
            talk(connection, name, f"turn of {name}", "word", "answer")
            if name == "busy":
                begin(connection, name, "t", user("more"))
            age(connection, name, MOMENT + dt.timedelta(days=number))

    def forget(connection: Connection, limit: int) -> list[Deleted]:
        return forget_threads(connection, before=MOMENT + dt.timedelta(days=3), limit=limit)

    do(fill)
    assert do(lambda it: forget(it, 1)) == [Deleted(TENANT, "older", "jarvis", "older")]
    assert [each.id for each in do(lambda it: forget(it, 9))] == ["old"]
    assert do(lambda it: forget(it, 9)) == []
    assert ids(do(lambda it: page(it, owner=None))) == ["new", "busy"]
    assert do(lambda it: told(it, "old")) == []
    assert ids(do(lambda it: page(it, owner=None, query="word"))) == ["new", "busy"], "nor are their words"


def test_a_portion_is_bounded_by_its_messages(do: Do, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pallas_gateway.store.conversations.retention.MOST_MESSAGES", 4)

    def fill(connection: Connection) -> None:
        for number in range(5):
            make_thread(connection, str(number))
            talk(connection, str(number), f"t{number}", "one", *["x"] * (9 if number == 3 else 1))
            age(connection, str(number), MOMENT + dt.timedelta(days=number))

    do(fill)
    portions = []
    while found := do(
        lambda it: forget_threads(it, before=dt.datetime.now(dt.UTC) + dt.timedelta(days=1), limit=99)
    ):
        portions.append([each.id for each in found])
    assert portions == [["0", "1"], ["2"], ["3"], ["4"]], "a long one goes whole"
    assert do(lambda it: it.execute(MESSAGES.select()).all()) == []
    do(lambda it: make_thread(it, "new"))
    assert do(lambda it: page(it, query="one")) == [], "a new one does not have the words of an old one"


def test_threads_go_with_their_agent_whoever_owns_them(do: Do) -> None:
    def fill(connection: Connection) -> None:
        for owner in ("ada", "eve", "bob"):
            make_thread(connection, f"{owner}'s", owner=owner, key="uid 1")
            make_thread(connection, f"{owner}'s new", owner=owner, key="uid 2")
        make_thread(connection, "file's")
        make_thread(connection, "friday's", agent="friday")
        begin(connection, "ada's", "t", user("one"))

    def delete(connection: Connection) -> list[Deleted]:
        return delete_threads_of_agent(connection, tenant=TENANT, agent_key="uid 1", limit=2)

    do(fill)
    keys = {("jarvis", "uid 1"), ("jarvis", "uid 2"), ("jarvis", "jarvis"), ("friday", "friday")}
    assert do(lambda it: agent_keys(it, tenant=TENANT)) == keys
    deleted = [each.id for _ in range(2) for each in do(delete)]
    assert sorted(deleted) == ["ada's", "bob's", "eve's"], "also with a turn under way"
    assert do(delete) == []
    assert do(lambda it: agent_keys(it, tenant=TENANT)) == keys - {("jarvis", "uid 1")}
    assert do(lambda it: finish(it, "ada's", "t", Row(role="assistant"))) is None
