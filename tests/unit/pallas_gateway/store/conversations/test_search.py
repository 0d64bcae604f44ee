"""Search: words as people type them, in titles and messages; the same is found in both databases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pallas_gateway.store.conversations import search, threads
from pallas_gateway.store.conversations.undo import undo_turn
from support.gateway.turns.rows import (
    TENANT,
    answer,
    begin,
    fail,
    finish,
    keep,
    make_thread,
    talk,
    user,
)

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from support.gateway.turns.rows import Do

SAID = {
    "alps": "How high is Mont Blanc? It's 4,807 m — straße, ÉCLAIR, naïve.",
    "code": "SELECT * FROM users WHERE name = 'O''Brien' AND x_y <> NULL; -- drop",
    "東京": "東京タワーはどこですか",
    "greek": "Ὀδυσσεύς ΣΊΣΥΦΟΣ ﬁnd",
    "plain": "near the not or and",
}


def fill(connection: Connection) -> None:
    for number, (title, text) in enumerate(SAID.items()):
        make_thread(connection, f"t{number}", title=title)
        talk(connection, f"t{number}", f"turn {number}", text, f"answer{number}")


def find(connection: Connection, query: str, owner: str | None = "ada") -> set[str]:
    found = threads.list_threads(
        connection, tenant=TENANT, owner=owner, agent_keys=None, query=query, after=None, limit=100
    )
    return {each.title for each in found}


@pytest.mark.parametrize(("at_once", "few"), [(100, 2000), (1, 2000), (1, 0)])
def test_words_are_found_as_people_type_them(
    do: Do, monkeypatch: pytest.MonkeyPatch, at_once: int, few: int
) -> None:
    """Whether they are looked for in the first threads, among few that the index names, or among many."""
    monkeypatch.setattr(threads, "LOOKED_AT_ONCE", at_once)
    monkeypatch.setattr(threads, "COMMON", 100 if at_once == 100 else 0)
    monkeypatch.setattr(search, "FEW", few)
    do(fill)
    for query, titles in {
        "mont blanc": {"alps"},
        "BLANC high": {"alps"},
        "bla": {"alps"},
        "bl": set(),  # the beginning of a word has three letters
        "mont everest": set(),
        "mont answer0": set(),  # one message has all of them
        "alps": {"alps"},
        "STRASSE": {"alps"},
        "éclair": {"alps"},
        "e\u0301clair": {"alps"},
        "eclair": set(),
        "4,807": {"alps"},
        "o'brien": {"code"},
        "x_y": {"code"},
        "users;--": {"code"},
        "東京": {"東京"},
        "京タ": {"東京"},
        "京東": {"東京"},  # signs, in whatever order
        "ὀδυσσεύς": {"greek"},
        "σίσυφος": {"greek"},
        "find": {"greek"},
        "answer": {"alps", "code", "東京", "greek", "plain"},
    }.items():
        assert do(lambda it, query=query: find(it, query)) == titles, query  # type: ignore[misc]
    assert do(lambda it: find(it, "blanc", "eve")) == set()
    assert do(lambda it: find(it, "blanc", None)) == {"alps"}
    assert len(do(lambda it: find(it, "  "))) == len(SAID), "a blank query is none"


OPERATORS = (
    '"',
    "'",
    "*",
    "a*",
    "(",
    "near(",
    "^",
    ":*",
    "&",
    "|",
    "!",
    "<->",
    "\\",
    "-",
    "\0",
    "\ud800",
    "%",
    "'; DROP TABLE threads; --",
    '" OR "a',
    "thread_words : x",
    "NOT",
    "AND AND",
    "!!! ???",
    "a" * 10_000,
    " ".join(f"w{n}" for n in range(500)),
)
"""Of FTS5, of tsquery, of SQL, of LIKE; and what is no word."""


def test_what_is_an_operator_elsewhere_is_none_here(do: Do) -> None:
    def look(connection: Connection) -> None:
        for query in OPERATORS:
            assert find(connection, query) <= {"plain", "code"}, query
            assert find(connection, f"near {query[:5]} the") <= {"plain"}, query
        assert find(connection, "not near or and") == {"plain"}

    do(fill)
    do(look)


def test_pages_of_what_is_found_have_each_thread_once(do: Do, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a page begins with what is looked at, and ends with what the index names."""
    monkeypatch.setattr(threads, "LOOKED_AT_ONCE", 2)

    def fill_more(connection: Connection) -> None:
        for number in range(30):
            make_thread(connection, f"t{number:02}")
            talk(connection, f"t{number:02}", f"turn {number}", "word" if number % 5 < 2 else "none", "x")

    def pages(connection: Connection, limit: int) -> list[str]:
        seen: list[str] = []
        after = None
        while page := threads.list_threads(
            connection,
            tenant=TENANT,
            owner="ada",
            agent_keys=["jarvis"],
            query="word",
            after=after,
            limit=limit,
        ):
            assert len(page) <= limit
            seen += [each.id for each in page]
            after = page[-1].cursor
        return seen

    do(fill_more)
    expected = [f"t{number:02}" for number in reversed(range(30)) if number % 5 < 2]
    for common in (0, 2, 100):
        monkeypatch.setattr(threads, "COMMON", common)
        for limit in (1, 3, 100):
            assert do(lambda it, limit=limit: pages(it, limit)) == expected  # type: ignore[misc]


@pytest.mark.parametrize("few", [3, 2000])
def test_a_rare_word_beside_a_common_one_is_of_the_same_message(
    do: Do, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(threads, "COMMON", 0)
    monkeypatch.setattr(threads, "LOOKED_AT_ONCE", 1)
    monkeypatch.setattr(search, "FEW", few)

    def fill_more(connection: Connection) -> None:
        for number in range(6):
            make_thread(connection, f"t{number}", title=f"common {number}")
            talk(connection, f"t{number}", f"turn {number}", "common ways", "common sense")
        for name, title, asked, answered in (
            ("title", "rare common", "x", "y"),
            ("message", "x", "x", "commonly rarely"),
            ("apart", "common", "rare", "common"),
        ):
            make_thread(connection, name, title=f"{title} {name}")
            talk(connection, name, f"turn of {name}", asked, answered)

    do(fill_more)
    for query in ("rare common", "common rare", "common rare common"):
        assert {each.rpartition(" ")[2] for each in do(lambda it, query=query: find(it, query))} == {  # type: ignore[misc]
            "title",
            "message",
        }
    assert len(do(lambda it: find(it, "common ways"))) == 6
    assert do(lambda it: find(it, "common nowhere")) == set()


def test_the_index_follows_what_changes(do: Do) -> None:
    do(fill)
    do(lambda it: threads.rename_thread(it, tenant=TENANT, id="t0", title="mountains"))
    assert do(lambda it: find(it, "alps")) == set()
    assert do(lambda it: find(it, "mountains")) == {"mountains"}
    assert not do(lambda it: threads.rename_thread(it, tenant=TENANT, id="nowhere", title="x"))

    do(lambda it: begin(it, "t0", "t", user("question")))
    do(lambda it: keep(it, "t0", "t", [answer("settledword")], [answer("pendingword")]))
    assert do(lambda it: find(it, "question")) == {"mountains"}
    assert do(lambda it: find(it, "pendingword")) == set(), "before it is said"
    do(lambda it: finish(it, "t0", "t", answer("settledword"), answer("lastword")))
    for word, found in (("settledword", True), ("lastword", True), ("pendingword", False)):
        assert bool(do(lambda it, word=word: find(it, word))) is found  # type: ignore[misc]

    do(lambda it: begin(it, "t1", "t", user("asked")))
    do(lambda it: fail(it, "t1", "t", "why", [], [answer("halfword")]))
    assert do(lambda it: find(it, "halfword")) == {"code"}, "what failed can be read, and found"

    do(lambda it: begin(it, "t2", "t", user("undoneword")))
    do(lambda it: undo_turn(it, tenant=TENANT, thread="t2", turn="t", with_thread=False))
    assert do(lambda it: find(it, "undoneword")) == set()
    do(lambda it: begin(it, "t2", "again", user("otherword")))
    do(lambda it: finish(it, "t2", "again", answer("x")))
    assert do(lambda it: find(it, "undoneword")) == set()
    assert do(lambda it: find(it, "otherword")) == {"東京"}

    do(lambda it: threads.delete_thread(it, tenant=TENANT, id="t3"))
    assert do(lambda it: find(it, "find")) == set()
    do(lambda it: make_thread(it, "t3", title="reborn"))
    assert do(lambda it: find(it, "find")) == set(), "a new thread does not have the words of an old one"


def test_an_index_without_what_was_taken_out_is_sound(do: Do) -> None:
    def check(connection: Connection) -> None:
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql("INSERT INTO thread_words (thread_words) VALUES ('integrity-check')")

    do(fill)
    for number in range(len(SAID)):
        do(lambda it, id_=f"t{number}": threads.delete_thread(it, tenant=TENANT, id=id_))  # type: ignore[misc]
    do(check)
    assert do(lambda it: find(it, "answer", None)) == set()
