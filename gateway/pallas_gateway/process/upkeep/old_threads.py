"""Threads that are forgotten when nobody has used them for as long as the settings say."""

from __future__ import annotations

import asyncio
import datetime as dt
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger
from pallas_common.times import rfc3339
from pallas_gateway.access.audit import AuditUnavailableError
from pallas_gateway.process.upkeep.portions import PORTION, delete_in_portions
from pallas_gateway.store.conversations.retention import forget_threads
from pallas_gateway.store.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pallas_gateway.access.audit import Audit
    from pallas_gateway.store.conversations.retention import Deleted
    from pallas_gateway.store.database import Store

INTERVAL = 600.0
"""Seconds from one look for old threads to the next."""

_log = get_logger("pallas.gateway.conversations")


async def forget_old_threads(
    store: Store,
    audit: Audit,
    keep: float | None,
    *,
    changed: Callable[[Deleted], object] = lambda _: None,
    count: Callable[[int], object] = lambda _: None,
    interval: float = INTERVAL,
) -> None:
    """Delete threads whose last activity is too long ago, now and again, until this is cancelled.

    A pass is one line of the audit, if it deletes anything; where that cannot be written nothing is forgotten.

    Args:
        keep: seconds for which a thread is kept after its last activity; None for ever.
        changed: is told of each thread that is deleted.
        count: is told how many were.
        interval: seconds from the end of a pass to the next one.
    """
    if keep is None:
        return
    complained = False
    while True:
        try:
            await _pass(store, audit, dt.datetime.now(dt.UTC) - dt.timedelta(seconds=keep), changed, count)
            complained = False
        except (StoreError, AuditUnavailableError) as error:
            if not complained:
                complained = True
                _log.error(f"old threads are not forgotten yet: {error}")
        await asyncio.sleep(interval)


async def _pass(
    store: Store,
    audit: Audit,
    before: dt.datetime,
    changed: Callable[[Deleted], object],
    count: Callable[[int], object],
) -> None:
    audit.check(frees=True)
    forget = partial(forget_threads, before=before, limit=PORTION)
    async with aclosing(delete_in_portions(store, forget)) as portions:
        portion = await anext(portions, None)
        if portion is None:
            return
        number, moment = 0, rfc3339(before)
        with audit.doing(None, "threads/forget", "", frees=True) as entry:
            try:
                while portion is not None:
                    number += len(portion)
                    for each in portion:
                        changed(each)
                    portion = await anext(portions, None)
            finally:
                entry.target = f"threads/{number} before/{moment}"
                count(number)
                _log.info(f"{number} threads without activity since {moment} are forgotten")
