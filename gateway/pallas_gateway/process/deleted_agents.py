"""Tokens go with their agents: with those that somebody has deleted, and with no others.

What is not there for another reason may come back: an agent of `agents.yaml`, one whose file cannot be read, one that
cannot be used at present. A deletion that nobody here heard of is made up for at the start: then an agent of a resource
is deleted if there is no file of its name, or one of another agent.

Each token is in the audit. It is revoked first, also where the audit cannot be written: its line follows when it can.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger
from pallas_control.errors import ControlError
from pallas_gateway.access.audit import AuditUnavailableError, Entry
from pallas_gateway.identity.sources import AgentKey
from pallas_gateway.store.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pallas_gateway.access.audit import Audit
    from pallas_gateway.directory.directory import Directory
    from pallas_gateway.directory.mirror import Gone
    from pallas_gateway.identity.principals import Principals

AGAIN = 2.0
"""Seconds until it is tried again where the store or the supervisor does not answer."""

_log = get_logger("pallas.gateway")


async def revoke_deleted(
    directory: Directory, principals: Principals, audit: Audit, *, again: float = AGAIN
) -> None:
    """Revoke the tokens of agents that are deleted, until this is cancelled.

    Args:
        again: seconds until what has failed is tried again.
    """
    untold: asyncio.Queue[Entry] = asyncio.Queue()

    def tell(agent: AgentKey, token: str) -> None:
        entry = Entry(principal=None, action="token.revoke", target=f"token/{token} agent/{agent.name}")
        try:
            audit.write(entry)
        except AuditUnavailableError:
            untold.put_nowait(entry)

    async def tell_late() -> None:
        while True:
            await _until_done(partial(_write, audit, await untold.get()), again, "in the audit")

    async def make_up() -> None:
        await principals.keep_agents(await directory.declared())

    async def revoke(gone: Gone) -> None:
        if gone.uid is None:  # its file could not be read: which agent it was the store alone knows
            await make_up()
        else:
            await principals.agents_deleted(AgentKey(gone.name, gone.uid))

    principals.on_gone(tell)
    news: asyncio.Queue[Gone] = asyncio.Queue()
    directory.observe_gone(news.put_nowait)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(tell_late(), name="audit of deleted agents")
        await directory.filled()
        await _until_done(make_up, again, "revoked")
        while True:
            gone = await news.get()
            if gone.deleted:
                await _until_done(partial(revoke, gone), again, "revoked")


async def _write(audit: Audit, entry: Entry) -> None:
    audit.write(entry)


async def _until_done(do: Callable[[], Awaitable[None]], again: float, what: str) -> None:
    complained = False
    while True:
        try:
            await do()
        except (ControlError, StoreError, AuditUnavailableError) as error:
            if not complained:
                complained = True
                _log.error(f"tokens of deleted agents are not {what} yet: {error}")
            await asyncio.sleep(again)
        else:
            return
