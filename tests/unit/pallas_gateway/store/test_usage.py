"""What owners keep is counted by the database, whatever happens to a thread, and whoever does it."""

from __future__ import annotations

import asyncio
import datetime as dt
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import func, select

from pallas_gateway.store.conversations import retention, threads, turns
from pallas_gateway.store.conversations.messages import list_messages
from pallas_gateway.store.conversations.records import Message, Row, Thread
from pallas_gateway.store.conversations.undo import undo_turn
from pallas_gateway.store.database import Store, do_in_store, open_store
from pallas_gateway.store.errors import StorageExceededError
from pallas_gateway.store.tables import MESSAGES, THREADS, USAGE
from pallas_gateway.store.usage import Room, check_room, kept_by
from support.gateway.older_store import go_back

if TYPE_CHECKING:
    from sqlalchemy import Connection

TENANT = "default"


def recounted(connection: Connection) -> dict[str, int]:
    """What each owner's threads take, from the rows themselves."""
    long = [MESSAGES.c[name] for name in ("content", "words", "tool_calls", "state", "error")]
    found = dict.fromkeys(connection.execute(select(USAGE.c.owner)).scalars(), 0)
    for row in connection.execute(
        select(THREADS.c.owner, func.count().label("threads")).group_by(THREADS.c.owner)
    ):
        found[row.owner] = row.threads * 512
    of = select(THREADS.c.owner, *long).join(MESSAGES, MESSAGES.c.thread == THREADS.c.id)
    for owner, *texts in connection.execute(of):
        found[owner] += 128 + sum(len(each.encode()) for each in texts if each is not None)
    return found


def check(store: Store) -> int:
    """Compare; what is kept altogether."""

    def compare(connection: Connection) -> int:
        counted = {row.owner: row.bytes for row in connection.execute(select(USAGE))}
        assert counted == recounted(connection)
        return sum(counted.values())

    return asyncio.run(store.read(compare))


def thread(id_: str, owner: str = "ada") -> partial[Thread]:
    return partial(
        threads.create_thread, tenant=TENANT, id=id_, agent="jarvis", agent_key="uid", owner=owner, title="T"
    )


def test_all_that_happens_to_threads_is_counted(store: Store) -> None:
    def do(what: object) -> None:
        asyncio.run(store.write(what))  # type: ignore[arg-type]
        check(store)

    of: dict[str, Any] = {"tenant": TENANT, "thread": "one", "turn": "t1"}
    say = [Row(role="user", content="Straße 🚲 " * 100)]
    for made in ("one", "two", "three"):
        do(thread(made))
    do(thread("theirs", "bob"))
    do(partial(turns.begin_turn, **of, process="p", rows=say))
    some, more = Row(role="assistant", content="one"), Row(role="assistant", content="one two three")
    do(partial(turns.keep_round, **of, settled=[], pending=[some]))
    do(partial(turns.keep_round, **of, settled=[some], pending=[more]))
    do(partial(turns.finish_turn, **of, rows=[some, more]))
    again = {**of, "turn": "t2"}
    do(partial(turns.begin_turn, **again, process="p", rows=[], redo=True))
    do(partial(turns.fail_turn, **again, why="it failed"))
    other = {**of, "turn": "t3"}
    do(partial(turns.begin_turn, **other, process="p", rows=say))
    do(partial(undo_turn, **other, with_thread=False))
    do(partial(threads.rename_thread, tenant=TENANT, id="one", title="Another"))
    messages = [
        Message(
            turn_index=index,
            turn="t",
            row=Row(role="user", content="x" * 1000),
            status="complete",
            created=dt.datetime.now(dt.UTC),
        )
        for index in range(20)
    ]
    do(
        partial(
            threads.import_thread,
            tenant=TENANT,
            id="imported",
            agent="jarvis",
            agent_key="uid",
            owner="bob",
            messages=messages,
        )
    )
    assert check(store) > 20_000
    do(partial(threads.delete_thread, tenant=TENANT, id="one"))
    do(partial(retention.delete_threads_of_agent, tenant=TENANT, agent_key="uid", limit=2))
    do(partial(retention.delete_threads_of_agent, tenant=TENANT, agent_key="uid", limit=100))
    assert check(store) == 0


def test_what_was_there_before_is_counted(url: str) -> None:
    store = open_store(url)
    asyncio.run(store.write(thread("one")))
    begin = partial(turns.begin_turn, tenant=TENANT, thread="one", turn="t", process="p")
    asyncio.run(store.write(partial(begin, rows=[Row(role="user", content="x" * 5000)])))
    kept = check(store)
    asyncio.run(store.close())

    do_in_store(url, partial(go_back, schema="0003"))
    store = open_store(url)
    assert check(store) == kept
    asyncio.run(store.close())


def test_a_change_for_which_there_is_no_room_is_undone(store: Store) -> None:
    def say(connection: Connection, size: int, *, owner: str, room: Room) -> None:
        id_ = f"{owner}-{size}"
        thread(id_, owner)(connection)
        turns.begin_turn(
            connection,
            tenant=TENANT,
            thread=id_,
            turn=id_,
            process="p",
            rows=[Row(role="user", content="x" * size)],
        )
        check_room(connection, room, tenant=TENANT, owner=owner)

    room = Room(owner=10_000, tenant=15_000)
    asyncio.run(store.write(partial(say, size=8000, owner="ada", room=room)))
    before = check(store)
    with pytest.raises(StorageExceededError, match=r"may take 9.8 KiB .*`storage` of `gateway.limits`"):
        asyncio.run(store.write(partial(say, size=3000, owner="ada", room=room)))
    with pytest.raises(StorageExceededError, match=r"all threads together.*`tenant_storage`"):
        asyncio.run(store.write(partial(say, size=7000, owner="bob", room=room)))
    assert check(store) == before
    asyncio.run(store.write(partial(say, size=3000, owner="bob", room=room)))
    asyncio.run(store.write(partial(threads.delete_thread, tenant=TENANT, id="ada-8000")))
    asyncio.run(store.write(partial(say, size=3000, owner="ada", room=room)))
    assert asyncio.run(store.read(partial(kept_by, tenant=TENANT, owner="ada"))) > 3000
    assert asyncio.run(store.read(partial(list_messages, tenant=TENANT, thread="ada-8000", limit=1))) == []


def test_those_who_write_at_a_time_are_counted_together_and_wait_for_nobody(store: Store) -> None:
    def say(connection: Connection, number: int) -> None:
        thread(f"{number}", f"owner-{number % 2}")(connection)
        for turn in range(3):
            of: dict[str, Any] = {"tenant": TENANT, "thread": f"{number}", "turn": f"{number}-{turn}"}
            turns.begin_turn(
                connection, **of, process="p", rows=[Row(role="user", content="x" * 100 * number)]
            )
            turns.finish_turn(connection, **of, rows=[Row(role="assistant", content="y" * 50)])
        check_room(connection, Room(owner=10**9, tenant=10**9), tenant=TENANT, owner=f"owner-{number % 2}")

    async def live() -> None:
        await asyncio.gather(*(store.write(partial(say, number=number)) for number in range(24)))

    asyncio.run(live())
    assert check(store) > 24 * 3 * 178
