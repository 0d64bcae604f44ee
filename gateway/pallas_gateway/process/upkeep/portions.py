"""Threads deleted in portions, so that no transaction is long and what others write goes on in between."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from sqlalchemy import Connection

    from pallas_gateway.store.conversations.retention import Deleted
    from pallas_gateway.store.database import Store

PORTION = 50
"""Threads of one transaction at most; the store has a bound of their messages."""
SHORTEST_PAUSE = 0.01


async def delete_in_portions(
    store: Store, delete: Callable[[Connection], Sequence[Deleted]]
) -> AsyncGenerator[Sequence[Deleted]]:
    """Each portion after it was deleted, to the last.

    Between two of them it waits for as long as one took: half of the store's time is for others, at least.

    Args:
        delete: what a portion deletes in a transaction; an empty one is the end.

    Raises:
        StoreError: the store does not answer; portions that have come are deleted.
    """
    while True:
        began = time.monotonic()
        portion = await store.write(delete, frees=True)
        if not portion:
            return
        yield portion
        await asyncio.sleep(max(time.monotonic() - began, SHORTEST_PAUSE))
