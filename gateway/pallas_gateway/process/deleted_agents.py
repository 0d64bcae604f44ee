"""Tokens go with their agents: with those that somebody has deleted, and with no others.

What is not there for another reason may come back: an agent of `agents.yaml`, one whose file cannot be read, one that
cannot be used at present. A deletion that nobody here heard of is made up for at the start: then an agent of a resource
is deleted if there is no file of its name, or one of another agent.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger
from pallas_control.errors import ControlError
from pallas_gateway.identity.sources import AgentKey
from pallas_gateway.store.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pallas_gateway.directory.directory import Directory
    from pallas_gateway.directory.mirror import Gone
    from pallas_gateway.identity.principals import Principals

AGAIN = 2.0
"""Seconds until it is tried again where the store or the supervisor does not answer."""

_log = get_logger("pallas.gateway")


async def revoke_deleted(directory: Directory, principals: Principals, *, again: float = AGAIN) -> None:
    """Revoke the tokens of agents that are deleted, until this is cancelled.

    Args:
        again: seconds until what has failed is tried again.
    """

    async def make_up() -> None:
        await principals.keep_agents(await directory.declared())

    async def revoke(gone: Gone) -> None:
        if gone.uid is None:  # its file could not be read: which agent it was the store alone knows
            await make_up()
        else:
            await principals.agents_deleted(AgentKey(gone.name, gone.uid))

    news: asyncio.Queue[Gone] = asyncio.Queue()
    directory.observe_gone(news.put_nowait)
    await directory.filled()
    await _until_done(make_up, again)
    while True:
        gone = await news.get()
        if gone.deleted:
            await _until_done(lambda gone=gone: revoke(gone), again)  # type: ignore[misc]


async def _until_done(do: Callable[[], Awaitable[None]], again: float) -> None:
    complained = False
    while True:
        try:
            await do()
        except (ControlError, StoreError) as error:
            if not complained:
                complained = True
                _log.error(f"tokens of deleted agents are not revoked yet: {error}")
            await asyncio.sleep(again)
        else:
            return
