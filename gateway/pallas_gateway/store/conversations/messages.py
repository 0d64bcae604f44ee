"""Messages of a thread, read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import bindparam, select

from pallas_gateway.store.conversations.rows import MESSAGE, ROW, message_of, row_of
from pallas_gateway.store.tables import MESSAGES

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from pallas_gateway.store.conversations.records import Message, Row

_END = 2**31 - 1

_LISTED = (
    select(*MESSAGE)
    .where(
        MESSAGES.c.tenant == bindparam("tenant_"),
        MESSAGES.c.thread == bindparam("thread_"),
        MESSAGES.c.turn_index > bindparam("after"),
    )
    .order_by(MESSAGES.c.turn_index)
    .limit(bindparam("most"))
)

_HISTORY = (
    select(*ROW)
    .where(
        MESSAGES.c.tenant == bindparam("tenant_"),
        MESSAGES.c.thread == bindparam("thread_"),
        MESSAGES.c.turn_index < bindparam("before"),
        MESSAGES.c.status == "complete",
    )
    .order_by(MESSAGES.c.turn_index)
)


def list_messages(
    connection: Connection, *, tenant: str, thread: str, after: int = -1, limit: int
) -> list[Message]:
    """Messages in their order, whatever their status; none where there is no such thread.

    Args:
        connection: within a transaction.
        tenant: whose it is.
        thread: its id.
        after: the `turn_index` behind which they begin.
        limit: how many at most.

    Raises:
        MalformedMessageError: a row is none of a message.
    """
    given = {"tenant_": tenant, "thread_": thread, "after": after, "most": limit}
    return [message_of(found, thread) for found in connection.execute(_LISTED, given)]


def history(connection: Connection, *, tenant: str, thread: str, before: int = _END) -> list[Row]:
    """What the next turn is told: complete rows alone, in their order, with a smaller `turn_index` than `before`.

    Raises:
        MalformedMessageError: a row is none of a message.
    """
    given = {"tenant_": tenant, "thread_": thread, "before": before}
    return [row_of(found, thread) for found in connection.execute(_HISTORY, given)]
