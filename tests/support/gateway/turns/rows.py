"""Threads and turns as rows, straight in a store: no worker, no gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pallas_gateway.conversations.keeping.turn_rows import Said, fail_with
from pallas_gateway.store.conversations import threads, turns
from pallas_gateway.store.conversations.messages import list_messages
from pallas_gateway.store.conversations.records import Row

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

    from pallas_gateway.store.conversations.records import Begun, Message, Thread


class Do(Protocol):
    """Runs a function in a transaction of its own, which is committed if it does not raise."""

    def __call__[T](self, what: Callable[[Connection], T]) -> T: ...


TENANT = "default"
PROCESS = "process"


def user(text: str) -> Row:
    """What somebody says."""
    return Row(role="user", content=text)


def answer(text: str) -> Row:
    """What an agent says."""
    return Row(role="assistant", content=text)


def make_thread(
    connection: Connection,
    id: str,  # noqa: A002 - as the column is called
    *,
    owner: str = "ada",
    agent: str = "jarvis",
    key: str | None = None,
    title: str = "",
    session: str | None = None,
) -> Thread:
    """A thread without messages; its agent is one of agents.yaml unless `key` says something else."""
    return threads.create_thread(
        connection,
        tenant=TENANT,
        id=id,
        agent=agent,
        agent_key=key or agent,
        owner=owner,
        title=title,
        session=session,
    )


def begin(connection: Connection, thread: str, turn: str, *asked: Row, redo: bool = False) -> Begun:
    """A turn is under way."""
    return turns.begin_turn(
        connection, tenant=TENANT, thread=thread, turn=turn, process=PROCESS, rows=asked, redo=redo
    )


def keep(connection: Connection, thread: str, turn: str, settled: list[Row], pending: list[Row]) -> bool:
    """It has come so far."""
    return turns.keep_round(
        connection, tenant=TENANT, thread=thread, turn=turn, settled=settled, pending=pending
    )


def finish(connection: Connection, thread: str, turn: str, *rows: Row) -> int | None:
    """It ends well."""
    return turns.finish_turn(connection, tenant=TENANT, thread=thread, turn=turn, rows=rows)


def fail(
    connection: Connection,
    thread: str,
    turn: str,
    why: str = "it broke",
    settled: list[Row] | None = None,
    pending: list[Row] | None = None,
) -> bool:
    """It ends without an answer, having said so much."""
    said = Said(settled or [], pending or [])
    return fail_with(connection, tenant=TENANT, thread=thread, turn=turn, said=said, why=why)


def talk(connection: Connection, thread: str, turn: str, asked: str, *said: Row | str) -> None:
    """A whole turn."""
    begin(connection, thread, turn, user(asked))
    finish(connection, thread, turn, *(answer(each) if isinstance(each, str) else each for each in said))


def messages(connection: Connection, thread: str) -> list[Message]:
    """All of a thread's."""
    return list_messages(connection, tenant=TENANT, thread=thread, limit=100_000)


def told(connection: Connection, thread: str) -> list[tuple[int, str, object, str]]:
    """Index, role, content and status of all of a thread's messages."""
    return [
        (each.turn_index, each.row.role, each.row.content, each.status)
        for each in messages(connection, thread)
    ]
