"""Turns: a thread is taken, rounds are kept as they come, and at the end the thread is free again.

Each function may be called again with what it was called with when nobody knows whether it was committed. While a turn
has a thread, nobody else writes to it: indices go up by one, whatever breaks.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from sqlalchemy import insert

from pallas_gateway.store.conversations import statements
from pallas_gateway.store.conversations.messages import history
from pallas_gateway.store.conversations.records import (
    LEFT_OUT,
    REPLACED,
    Begun,
    NothingToRedoError,
    PendingTurn,
    Row,
    ThreadBusyError,
    ThreadGoneError,
)
from pallas_gateway.store.conversations.rows import columns_of, row_of, thread_of
from pallas_gateway.store.conversations.search import add_words
from pallas_gateway.store.conversations.words import words
from pallas_gateway.store.errors import MalformedMessageError
from pallas_gateway.store.tables import MESSAGES, insert_into

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Insert

    from pallas_gateway.store.conversations.records import Status
    from pallas_gateway.store.conversations.rows import Columns, Found

_KEY = ("tenant", "thread", "turn_index")
_KEPT = ("role", "content", "words", "tool_calls", "tool_call_id", "is_error", "state", "status", "error")
_ADD = insert(MESSAGES)
_NOTHING_YET = Row(role="assistant")
_PUTTING: dict[str, Insert] = {}
"""Kind of database → the statement that writes rows in their places."""


def begin_turn(
    connection: Connection,
    *,
    tenant: str,
    thread: str,
    turn: str,
    process: str,
    rows: Sequence[Row],
    redo: bool = False,
) -> Begun:
    """Take a thread for a turn: what is asked is appended as complete, and an empty pending row of the assistant.

    Args:
        connection: within a transaction that may write.
        tenant: whose it is.
        thread: its id.
        turn: a new id. A turn that has ended is not begun again.
        process: which process works on it.
        rows: what is asked; empty with `redo`.
        redo: ask again what the last turn that has complete rows asked. Its rows stay as they are until this turn
            finishes, and then become `error`; until then all of this turn's are pending, so that nothing is lost if
            it fails. The history is that of before the last turn.

    Raises:
        ThreadBusyError: another turn has it.
        ThreadGoneError: there is no such thread.
        NothingToRedoError: no turn is there to be done again.
        MalformedMessageError: a row of the history is none of a message.
    """
    where = {"tenant_": tenant, "thread_": thread}
    if redo:
        return _begin_again(connection, where, turn=turn, process=process)
    taken = _take(connection, where, turn=turn, process=process, asked=len(rows))
    if taken is None:
        return _begun_before(connection, where, turn)
    first = taken.turn_first
    now = _now()
    add = [
        columns_of(tenant, thread, first - len(rows) + place, turn, row, status="complete", created=now)
        for place, row in enumerate(rows)
    ]
    add.append(columns_of(tenant, thread, first, turn, _NOTHING_YET, status="pending", created=now))
    connection.execute(_ADD, add)
    add_words(connection, tenant=tenant, thread=thread, start=first - len(rows))
    told = history(connection, tenant=tenant, thread=thread, before=first - len(rows))
    return Begun(thread_of(taken), told, first)


def keep_round(
    connection: Connection,
    *,
    tenant: str,
    thread: str,
    turn: str,
    settled: Sequence[Row],
    pending: Sequence[Row],
) -> bool:
    """Keep what a turn has said and done so far; whether the turn has the thread still, otherwise nothing is kept.

    Args:
        connection: within a transaction that may write.
        tenant: whose it is.
        thread: its id.
        turn: the turn's id.
        settled: its rows from the first one of the answer on that change no more. Those that were kept as settled
            before are not written again.
        pending: the rows behind them, as they are now.
    """
    where = {"tenant_": tenant, "thread_": thread}
    found = connection.execute(statements.OF_TURN, {**where, "turn_": turn}).one_or_none()
    if found is None:
        return False
    first, known = found.turn_first, found.turn_settled
    now = _now()
    kept: Status = "complete" if found.turn_replaces is None else "pending"
    rows = [*((row, kept) for row in settled), *((row, "pending") for row in pending)]
    columns = [
        columns_of(tenant, thread, first + place, turn, row, status=status, created=now, has_words=False)
        for place, (row, status) in enumerate(rows)
        if place >= known
    ]
    _put(connection, columns)
    length = max(found.length, first + len(rows))
    if length != found.length or len(settled) > known:
        connection.execute(statements.GROW, {**where, "long": length, "settled": max(known, len(settled))})
    return True


def finish_turn(
    connection: Connection, *, tenant: str, thread: str, turn: str, rows: Sequence[Row]
) -> int | None:
    """End a turn well: these are its rows behind what was asked, at least one; the thread is free.

    Rows that were kept and are not among them become `error`.

    Returns:
        The `turn_index` of the last one, also when it had finished before; None if the turn does not have the thread
        any more, or failed.
    """
    if not rows:
        raise ValueError("a turn that finishes has said something")
    where = {"tenant_": tenant, "thread_": thread}
    found = connection.execute(statements.OF_TURN, {**where, "turn_": turn}).one_or_none()
    if found is None:
        return _finished(connection, where, turn)
    first, end = found.turn_first, found.turn_first + len(rows)
    now = _now()
    if found.turn_replaces is not None:
        connection.execute(statements.REPLACE, {**where, "replaced": found.turn_replaces})
        connection.execute(statements.ACCEPT_ASKED, {**where, "start": found.turn_start, "end": first})
    _put(
        connection,
        [
            columns_of(tenant, thread, first + place, turn, row, status="complete", created=now)
            for place, row in enumerate(rows)
        ],
    )
    if found.length > end:
        connection.execute(statements.LEAVE_OUT, {**where, "start": end})
    add_words(connection, tenant=tenant, thread=thread, start=first)
    connection.execute(statements.RELEASE, {**where, "long": max(found.length, end), "moment": now})
    return int(end) - 1


def fail_turn(connection: Connection, *, tenant: str, thread: str, turn: str, why: str) -> bool:
    """End a turn that failed or was stopped: what is pending of it becomes `error`; the thread is free.

    Where nothing would tell of the failure, an empty row of the assistant does.

    Args:
        connection: within a transaction that may write.
        tenant: whose it is.
        thread: its id.
        turn: the turn's id.
        why: for its rows.

    Returns:
        Whether it has failed, now or before; False if it has finished, or the thread is gone.
    """
    where = {"tenant_": tenant, "thread_": thread}
    found = connection.execute(statements.OF_TURN, {**where, "turn_": turn}).one_or_none()
    if found is None:
        return _failed(connection, where, turn)
    is_told = connection.execute(
        statements.UNSETTLED, {**where, "start": found.turn_first + found.turn_settled}
    ).first()
    now = _now()
    length = found.length
    if is_told is None:
        length += 1
        _put(
            connection,
            [
                columns_of(
                    tenant,
                    thread,
                    length - 1,
                    turn,
                    _NOTHING_YET,
                    status="error",
                    error=why,
                    created=now,
                    has_words=False,
                )
            ],
        )
    connection.execute(statements.FAIL, {**where, "start": found.turn_start, "why": why})
    _fill_words(connection, where, found.turn_first)
    connection.execute(statements.RELEASE, {**where, "long": length, "moment": now})
    return True


def pending_turns(connection: Connection) -> list[PendingTurn]:
    """The turns under way in all threads, also those on which nobody works any more."""
    return [PendingTurn(*found) for found in connection.execute(statements.UNDER_WAY)]


def _take(
    connection: Connection,
    where: dict[str, str],
    *,
    turn: str,
    process: str,
    asked: int,
    replaces: str | None = None,
) -> Found | None:
    given = {"taker": turn, "worker": process, "asked": asked, "more": asked + 1, "replaced": replaces}
    return connection.execute(statements.TAKE, {**where, **given}).one_or_none()


def _begin_again(connection: Connection, where: dict[str, str], *, turn: str, process: str) -> Begun:
    found = connection.execute(statements.LOCK, where).one_or_none()
    if found is None or found.turn is not None:
        return _begun_before(connection, where, turn)
    last = connection.execute(statements.LAST_COMPLETE, where).scalar_one_or_none()
    of_last = connection.execute(statements.ROWS_OF_TURN, {**where, "turn_": last}).all() if last else []
    asked = _asked(of_last)
    if not asked:
        raise NothingToRedoError
    taken = _take(connection, where, turn=turn, process=process, asked=len(asked), replaces=last)
    if taken is None:
        return _begun_before(connection, where, turn)
    now = _now()
    tenant, thread, first = where["tenant_"], where["thread_"], taken.turn_first
    add: list[Columns] = [
        {
            **row._asdict(),
            "turn_index": index,
            "turn": turn,
            "status": "pending",
            "error": None,
            "created": now,
        }
        for index, row in enumerate(asked, first - len(asked))
    ]
    add.append(columns_of(tenant, thread, first, turn, _NOTHING_YET, status="pending", created=now))
    connection.execute(_ADD, add)
    add_words(connection, tenant=tenant, thread=thread, start=first - len(asked))
    told = history(connection, tenant=tenant, thread=thread, before=of_last[0].turn_index)
    return Begun(thread_of(taken), told, first)


def _begun_before(connection: Connection, where: dict[str, str], turn: str) -> Begun:
    """What was begun with the same call, if the turn has the thread."""
    found = connection.execute(statements.FIND, where).one_or_none()
    if found is None:
        raise ThreadGoneError(where["thread_"])
    if found.turn is None:  # it was free again in the meantime
        raise ThreadBusyError("", None)
    if found.turn != turn:
        raise ThreadBusyError(found.turn, found.process)
    start = found.turn_start
    if found.turn_replaces is not None:
        start = (
            connection.execute(statements.ROWS_OF_TURN, {**where, "turn_": found.turn_replaces})
            .all()[0]
            .turn_index
        )
    told = history(connection, tenant=where["tenant_"], thread=where["thread_"], before=start)
    return Begun(thread_of(found), told, found.turn_first)


def _asked(of_turn: Sequence[Found]) -> Sequence[Found]:
    """The rows of a turn up to the last one of the user: an answer has none."""
    end = max((place for place, row in enumerate(of_turn, 1) if row.role == "user"), default=0)
    return of_turn[:end]


def _put(connection: Connection, columns: list[Columns]) -> None:
    """Write rows in their places, whether there is one or not."""
    if not columns:
        return
    connection.execute(_putting(connection), columns)


def _putting(connection: Connection) -> Insert:
    """The statement of `_put`; made once for a kind of database, which takes longer than to run it."""
    kind = connection.dialect.name
    if kind not in _PUTTING:
        add = insert_into(connection, MESSAGES)
        kept = {name: add.excluded[name] for name in _KEPT}
        _PUTTING[kind] = add.on_conflict_do_update(index_elements=_KEY, set_=kept)
    return _PUTTING[kind]


def _fill_words(connection: Connection, where: dict[str, str], start: int) -> None:
    """Let what a turn that failed has said be found."""
    said = connection.execute(statements.SAID, {**where, "start": start}).all()
    if said:
        found = [{**where, "index_": row.turn_index, "found": _words(row, where["thread_"])} for row in said]
        connection.execute(statements.FILL_WORDS, found)
        add_words(connection, tenant=where["tenant_"], thread=where["thread_"], start=start)


def _words(row: Found, thread: str) -> str | None:
    """Those of a message; a malformed one keeps no turn from its end."""
    try:
        return words(row_of(row, thread).text)
    except MalformedMessageError:
        return None


def _finished(connection: Connection, where: dict[str, str], turn: str) -> int | None:
    """The index of the last row of a turn that has finished."""
    last = _end(connection, where, turn)
    return int(last.turn_index) if last is not None and last.status == "complete" else None


def _failed(connection: Connection, where: dict[str, str], turn: str) -> bool:
    last = _end(connection, where, turn)
    return last is not None and last.status == "error" and last.error != REPLACED


def _end(connection: Connection, where: dict[str, str], turn: str) -> Found | None:
    rows = connection.execute(statements.ENDS_OF_TURN, {**where, "turn_": turn})
    return next((row for row in rows if row.error != LEFT_OUT), None)


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
