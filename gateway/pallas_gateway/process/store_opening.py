"""The store at the start: opened and brought up to date, and waited for while its database is away.

Knows the store; not what is served meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger
from pallas_gateway.process.errors import GatewayError
from pallas_gateway.store.database import open_store
from pallas_gateway.store.deployment.instance import Claimant, claim
from pallas_gateway.store.deployment.operator import ensure_operator_token
from pallas_gateway.store.errors import StoreError, StoreUnavailableError
from pallas_gateway.store.principals import TokenRecords

if TYPE_CHECKING:
    from collections.abc import Callable

    from pallas_common.protocol.gateway import GatewaySpec
    from pallas_gateway.store.database import Store

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 10.0
"""Seconds between two tries; each pause is twice the one before, up to that."""

_log = get_logger("pallas.gateway")


def claimant_of(spec: GatewaySpec) -> Claimant:
    """The deployment, as one that a store may belong to."""
    return Claimant(deployment=spec.deployment, directory=Path(spec.state_directory))


async def opened_store(spec: GatewaySpec) -> Store:
    """The store, with a token of the operator and without what nobody asks for any more.

    Raises:
        StoreUnavailableError: not now.
        GatewayError: not without a person.
    """
    store: Store | None = None
    try:
        store = await asyncio.to_thread(open_store, spec.store, partial(claim, claimant=claimant_of(spec)))
        await ensure_operator_token(store, Path(spec.state_directory))
        await TokenRecords(store).forget_old()
    except BaseException as error:
        if store is not None:
            await store.close()
        if isinstance(error, StoreError) and not isinstance(error, StoreUnavailableError):
            raise GatewayError(str(error), permanent=True) from error
        raise
    return store


async def awaited_store(
    spec: GatewaySpec, why: StoreUnavailableError, stopping: asyncio.Event, tell: Callable[[str], None]
) -> Store | None:
    """The store once it can be opened, however long that takes; None if the process is to stop before.

    Args:
        why: it could not be at first.
        tell: is told why whenever it is something else than at first.

    Raises:
        GatewayError: it cannot be without a person.
    """
    pause = FIRST_PAUSE
    told = str(why)
    while True:
        if told != str(why):
            told = str(why)
            tell(told)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await stopping.wait()
        if stopping.is_set():
            return None
        try:
            store = await opened_store(spec)
        except StoreUnavailableError as error:
            why = error
            pause = min(pause * 2, LONGEST_PAUSE)
        else:
            _log.info(f"the store {store} is there: the gateway goes on")
            return store
