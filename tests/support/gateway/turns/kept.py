"""What has to hold of threads when everything is there again: against what was told, and what the provider got.

Reads the REST API and the database itself; knows the words of `talkers`.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import create_engine, text

from support.gateway.turns.talkers import calls_of, texts_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from support.gateway.door import Door
    from support.gateway.turns.talkers import Told

type Json = dict[str, Any]


@dataclass
class Asked:
    """The rows of one turn."""

    user: Json
    rows: list[Json]
    """Behind the user's."""

    @property
    def text(self) -> str:
        """What the model has said."""
        return _plain("".join(row["content"] for row in self.rows if row["role"] == "assistant"))

    @property
    def calls(self) -> dict[str, str]:
        """What the tool was called with, by the call's id."""
        found: dict[str, str] = {}
        for row in self.rows:
            for call in row["toolCalls"] or ():
                assert call["id"] not in found, f"a call is there twice: {self.rows}"
                found[call["id"]] = call["arguments"]["text"]
        return found

    @property
    def results(self) -> dict[str, str]:
        """What the tool gave, by the call's id."""
        found: dict[str, str] = {}
        for row in self.rows:
            if row["role"] == "tool":
                assert row["toolCallId"] not in found, f"a result is there twice: {self.rows}"
                found[row["toolCallId"]] = row["content"]
        return found


def messages(caller: Door, thread: str) -> list[Json]:
    """A thread's messages over REST."""
    answer = caller.rest("GET", f"/threads/{thread}/messages", params={"limit": 1000})
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["nextCursor"] is None
    items: list[Json] = found["items"]
    return items


def check_thread(
    items: Sequence[Json], told: Sequence[Told], histories: Mapping[str, Sequence[Json]]
) -> Counter[str]:
    """That a thread holds all that was told of it, once, in order, and that each turn was told what is complete.

    Returns:
        How many turns there are of which kind.
    """
    assert [item["turnIndex"] for item in items] == list(range(len(items))), "indices have gaps"
    assert not [item for item in items if item["status"] == "pending"], items
    by_turn: dict[str, Asked] = {}
    for item in items:
        if item["role"] == "user":
            assert item["content"] not in by_turn, f"a turn is there twice: {item}"
            assert item["status"] == "complete"
            by_turn[item["content"]] = asked = Asked(item, [])
        else:
            asked.rows.append(item)
    names = [each.turn for each in told]
    assert list(by_turn) == [name for name in names if name in by_turn], "turns are out of order"
    kinds = Counter[str]()
    for each in told:
        kinds[_check_turn(each, by_turn.get(each.turn))] += 1
        if each.turn in by_turn and each.turn in histories:
            before = items[: by_turn[each.turn].user["turnIndex"]]
            _check_history(each.turn, before, histories[each.turn])
    return kinds


def check_database(store: str, threads: Mapping[str, Sequence[Json]]) -> None:
    """That the database itself says the same of the threads, and that nobody has one.

    Args:
        store: its address.
        threads: messages by thread.
    """
    url = store.replace("sqlite:", "sqlite:///").replace("postgresql:", "postgresql+psycopg:")
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            taken = connection.execute(text("SELECT id, turn FROM threads WHERE turn IS NOT NULL")).all()
            assert not taken, taken
            count = "SELECT count(*) FROM messages WHERE status NOT IN ('complete', 'error')"
            assert connection.execute(text(count)).scalar() == 0
            found = connection.execute(
                text(
                    "SELECT thread, count(*), min(turn_index), max(turn_index) FROM messages GROUP BY thread"
                )
            )
            rows = {row[0]: tuple(row[1:]) for row in found}
            length = {row[0]: row[1] for row in connection.execute(text("SELECT id, length FROM threads"))}
    finally:
        engine.dispose()
    for thread, items in threads.items():
        assert length[thread] == len(items)
        if items:
            assert rows[thread] == (len(items), 0, len(items) - 1)


def _check_turn(told: Told, asked: Asked | None) -> str:
    """What was told of a turn is in its rows, and nothing is there that the model has not said; how it has ended."""
    if asked is None:
        assert not told.is_acknowledged, f"what was acknowledged is not there: {told}"
        assert not told.text, told
        return "never begun"
    said, calls, results = _plain("".join(texts_of(told.turn))), asked.calls, asked.results
    where = f"{told}\n{asked}"
    assert asked.text.startswith(_plain(told.text)), f"text is missing: {where}"
    assert said.startswith(asked.text), f"the model has not said that: {where}"
    assert not Counter(told.calls) - Counter(calls.values()), f"a call is missing: {where}"
    assert list(calls.values()) == calls_of(told.turn)[: len(calls)], f"calls are wrong: {where}"
    assert results.keys() <= calls.keys(), f"a result without its call: {where}"
    wrong = {id_: given for id_, given in results.items() if given and calls[id_] not in _given(given)}
    assert not wrong, f"results are wrong: {where}"
    assert sum(map(bool, results.values())) >= told.results, f"a result is missing: {where}"
    complete = all(row["status"] == "complete" for row in asked.rows)
    if told.final is not None:
        assert (asked.text, list(calls.values())) == (said, calls_of(told.turn)), where
        assert complete, where
        assert told.final == asked.rows[-1]["turnIndex"], where
        return "answered"
    if told.failed is not None:
        assert not complete, where
        return "failed"
    return "broken off"


def _given(said: str) -> tuple[object, ...]:
    """What the tool gave, as text or as the object that its schema has."""
    try:
        return said, json.loads(said)["result"]
    except (ValueError, TypeError, KeyError):
        return (said,)


def _check_history(turn: str, before: Sequence[Json], got: Sequence[Json]) -> None:
    """The provider was told what is complete, and nothing else."""
    expected = [_told(item) for item in before if item["status"] == "complete"]
    assert [_got(each) for each in got] == expected, f"the history of {turn}: {got}"


def _told(item: Json) -> tuple[object, ...]:
    calls = tuple((each["id"], each["arguments"]["text"]) for each in item["toolCalls"] or ())
    return item["role"], _plain(item["content"]), calls, item["toolCallId"]


def _got(message: Json) -> tuple[object, ...]:
    calls = tuple(
        (each["id"], json.loads(each["function"]["arguments"])["text"])
        for each in message.get("tool_calls") or ()
    )
    content = message.get("content") or ""
    if isinstance(content, list):
        content = "".join(part["text"] for part in content)
    return message["role"], _plain(content), calls, message.get("tool_call_id")


def _plain(said: str) -> str:
    """Without white space: rows are stripped, and what is told has blank lines between rounds."""
    return "".join(said.split())
