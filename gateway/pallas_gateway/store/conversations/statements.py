"""The statements of turns, made once: SQLAlchemy compiles each a single time.

`tenant_` and `thread_` say of which thread in all of them.
"""

from __future__ import annotations

from sqlalchemy import and_, bindparam, select, update

from pallas_gateway.store.conversations.records import LEFT_OUT, REPLACED
from pallas_gateway.store.conversations.rows import ROW, THREAD
from pallas_gateway.store.tables import MESSAGES, THREADS

_THREAD = and_(THREADS.c.tenant == bindparam("tenant_"), THREADS.c.id == bindparam("thread_"))
_OF_THREAD = and_(MESSAGES.c.tenant == bindparam("tenant_"), MESSAGES.c.thread == bindparam("thread_"))

TAKE = (
    update(THREADS)
    .where(_THREAD, THREADS.c.turn.is_(None))
    .values(
        turn=bindparam("taker"),
        process=bindparam("worker"),
        length=THREADS.c.length + bindparam("more"),
        turn_start=THREADS.c.length,
        turn_first=THREADS.c.length + bindparam("asked"),
        turn_settled=0,
        turn_replaces=bindparam("replaced"),
    )
    .returning(*THREAD, THREADS.c.turn_first)
)
FIND = select(*THREAD, THREADS.c.turn_start, THREADS.c.turn_first, THREADS.c.turn_replaces).where(_THREAD)
LOCK = FIND.with_for_update()
OF_TURN = (
    select(
        THREADS.c.length,
        THREADS.c.turn_start,
        THREADS.c.turn_first,
        THREADS.c.turn_settled,
        THREADS.c.turn_replaces,
    )
    .where(_THREAD, THREADS.c.turn == bindparam("turn_"))
    .with_for_update()
)
GROW = update(THREADS).where(_THREAD).values(length=bindparam("long"), turn_settled=bindparam("settled"))
RELEASE = (
    update(THREADS)
    .where(_THREAD)
    .values(
        turn=None,
        process=None,
        turn_start=None,
        turn_first=None,
        turn_settled=None,
        turn_replaces=None,
        length=bindparam("long"),
        last_turn=bindparam("moment", type_=THREADS.c.last_turn.type),
        active=bindparam("moment", type_=THREADS.c.active.type),
    )
)
LAST_COMPLETE = (
    select(MESSAGES.c.turn)
    .where(_OF_THREAD, MESSAGES.c.status == "complete")
    .order_by(MESSAGES.c.turn_index.desc())
    .limit(1)
)
ROWS_OF_TURN = (
    select(MESSAGES).where(_OF_THREAD, MESSAGES.c.turn == bindparam("turn_")).order_by(MESSAGES.c.turn_index)
)
ENDS_OF_TURN = (
    select(MESSAGES.c.turn_index, MESSAGES.c.status, MESSAGES.c.error)
    .where(_OF_THREAD, MESSAGES.c.turn == bindparam("turn_"))
    .order_by(MESSAGES.c.turn_index.desc())
)
UNSETTLED = (
    select(MESSAGES.c.turn_index).where(_OF_THREAD, MESSAGES.c.turn_index >= bindparam("start")).limit(1)
)
REPLACE = (
    update(MESSAGES)
    .where(_OF_THREAD, MESSAGES.c.turn == bindparam("replaced"), MESSAGES.c.status == "complete")
    .values(status="error", error=REPLACED)
)
ACCEPT_ASKED = (
    update(MESSAGES)
    .where(_OF_THREAD, MESSAGES.c.turn_index >= bindparam("start"), MESSAGES.c.turn_index < bindparam("end"))
    .values(status="complete")
)
LEAVE_OUT = (
    update(MESSAGES)
    .where(_OF_THREAD, MESSAGES.c.turn_index >= bindparam("start"))
    .values(status="error", error=LEFT_OUT)
)
FAIL = (
    update(MESSAGES)
    .where(_OF_THREAD, MESSAGES.c.turn_index >= bindparam("start"), MESSAGES.c.status == "pending")
    .values(status="error", error=bindparam("why"))
)
SAID = select(*ROW).where(_OF_THREAD, MESSAGES.c.turn_index >= bindparam("start"))
FILL_WORDS = (
    update(MESSAGES)
    .where(_OF_THREAD, MESSAGES.c.turn_index == bindparam("index_"))
    .values(words=bindparam("found"))
)
UNDER_WAY = select(THREADS.c.tenant, THREADS.c.id, THREADS.c.turn, THREADS.c.process).where(
    THREADS.c.turn.is_not(None)
)
