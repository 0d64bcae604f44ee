"""The store stays the deployment's as long as its gateway runs: it says that it is there, and ends where it is not.

Another deployment's gateway that was told to take the store over must not find this one still writing into it.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from pallas_gateway.process.errors import GatewayError
from pallas_gateway.store.deployment.instance import see
from pallas_gateway.store.errors import StoreError

if TYPE_CHECKING:
    from pallas_gateway.store.database import Store
    from pallas_gateway.store.deployment.instance import Claimant

INTERVAL = 30.0
"""Seconds from one look to the next."""


async def keep_ownership(store: Store, claimant: Claimant, *, interval: float = INTERVAL) -> None:
    """Note now and again that the gateway is there, until this is cancelled.

    Args:
        interval: seconds from one look to the next.

    Raises:
        GatewayError: the store has become another deployment's.
    """
    id_ = await asyncio.to_thread(lambda: claimant.id)
    if id_ is None:  # removed since the start, which has looked: the next one says so
        return
    while True:
        try:
            other = await store.write(partial(see, id_=id_, claimant=claimant), durable=False)
        except StoreError:
            other = None  # its health tells
        if other is not None:
            raise GatewayError(f"the store has been taken over by {other}", permanent=True)
        await asyncio.sleep(interval)
