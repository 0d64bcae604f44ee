"""Messages of a thread, read."""

from __future__ import annotations

from itertools import accumulate, takewhile
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, case, func, null, or_, select

from pallas_gateway.store.conversations.rows import MESSAGE, ROW, message_of, row_of
from pallas_gateway.store.tables import MESSAGES

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection

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

_SIZES = (
    select(
        func.coalesce(func.length(MESSAGES.c.content), 0)
        + func.coalesce(func.length(MESSAGES.c.tool_calls), 0)
        + func.coalesce(func.length(MESSAGES.c.state), 0)
    )
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

_IS_LARGE = or_(
    func.length(MESSAGES.c.content) > bindparam("longest"),
    func.length(MESSAGES.c.tool_calls) > bindparam("longest"),
)


def _if_small(column: ColumnElement[Any]) -> ColumnElement[Any]:
    return case((func.length(column) <= bindparam("longest"), column))


_NEWEST = (
    select(
        *(
            _if_small(column).label(column.name)
            if column.name in ("content", "tool_calls")
            else null().label("state")
            if column.name == "state"
            else column
            for column in MESSAGE
        ),
        func.coalesce(_IS_LARGE, False),
    )
    .where(MESSAGES.c.tenant == bindparam("tenant_"), MESSAGES.c.thread == bindparam("thread_"))
    .order_by(MESSAGES.c.turn_index.desc())
    .limit(bindparam("most"))
)


def list_messages(
    connection: Connection,
    *,
    tenant: str,
    thread: str,
    after: int = -1,
    limit: int,
    longest: int | None = None,
) -> list[Message]:
    """Messages in their order, whatever their status; none where there is no such thread.

    Args:
        connection: within a transaction.
        tenant: whose it is.
        thread: its id.
        after: the `turn_index` behind which they begin.
        limit: how many at most.
        longest: characters of all of them as they are stored, but of a longer one alone: they may hold images.

    Raises:
        MalformedMessageError: a row is none of a message.
    """
    given = {"tenant_": tenant, "thread_": thread, "after": after, "most": limit}
    if longest is not None:
        sums = accumulate(connection.execute(_SIZES, given).scalars())
        given["most"] = max(sum(1 for _ in takewhile(lambda size: size <= longest, sums)), 1)
    return [message_of(found, thread) for found in connection.execute(_LISTED, given)]


def history(connection: Connection, *, tenant: str, thread: str, before: int = _END) -> list[Row]:
    """What the next turn is told: complete rows alone, in their order, with a smaller `turn_index` than `before`.

    Raises:
        MalformedMessageError: a row is none of a message.
    """
    given = {"tenant_": tenant, "thread_": thread, "before": before}
    return [row_of(found, thread) for found in connection.execute(_HISTORY, given)]


def newest_messages(
    connection: Connection, *, tenant: str, thread: str, limit: int, longest: int
) -> list[tuple[Message, bool]]:
    """The last messages of a thread, in their order, without a worker's own state.

    Args:
        connection: within a transaction.
        tenant: whose it is.
        thread: its id.
        limit: how many at most.
        longest: characters that a content, and the calls of a message, may take as JSON; what is longer is not read.

    Returns:
        Each with whether something of it was not read.

    Raises:
        MalformedMessageError: a row is none of a message.
    """
    given = {"tenant_": tenant, "thread_": thread, "most": limit, "longest": longest}
    found = connection.execute(_NEWEST, given).all()
    return [(message_of(row[:-1], thread), bool(row[-1])) for row in reversed(found)]
