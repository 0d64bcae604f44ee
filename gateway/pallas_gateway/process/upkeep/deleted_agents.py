"""Tokens and threads go with their agents: with those that somebody has deleted, and with no others.

What is not there for another reason may come back: an agent of `agents.yaml`, one whose file cannot be read, one that
cannot be used at present. A deletion that nobody here heard of is made up for at the start: then an agent of a resource
is deleted if there is no file of its name, or one of another agent.

All of it is in the audit, a line for each token and one for the threads of an agent. It is done first, also where the
audit cannot be written: its line follows when it can.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Protocol

from pallas_common.logs.setup import get_logger
from pallas_control.errors import ControlError
from pallas_gateway.access.audit import AuditUnavailableError, Entry
from pallas_gateway.identity.sources import AgentKey
from pallas_gateway.store.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from pallas_gateway.access.audit import Audit
    from pallas_gateway.directory.directory import Directory
    from pallas_gateway.directory.mirror import Gone
    from pallas_gateway.identity.principals import Principals
    from pallas_gateway.process.upkeep.agent_threads import AgentThreads

AGAIN = 2.0
"""Seconds until it is tried again where the store or the supervisor does not answer."""

_log = get_logger("pallas.gateway")


class Belongings(Protocol):
    """What goes with agents. Both raise what the store raises, and are called again then."""

    async def agents_deleted(self, *agents: AgentKey) -> None:
        """Agents are no more: nor is what belongs to them."""

    async def keep_agents(self, declared: Mapping[str, str | None]) -> None:
        """What belongs to resources' agents that were deleted while nobody looked goes.

        Args:
            declared: the name of each agent that there is, with the uid of its resource, or None.
        """


async def follow_deletions(
    directory: Directory,
    principals: Principals,
    threads: AgentThreads,
    audit: Audit,
    *,
    again: float = AGAIN,
) -> None:
    """Have go what belongs to deleted agents, until this is cancelled.

    Args:
        again: seconds until what has failed is tried again.
    """
    untold: asyncio.Queue[Entry] = asyncio.Queue()

    def tell(action: str, target: str) -> None:
        entry = Entry(principal=None, action=action, target=target, frees=True)
        try:
            audit.write(entry)
        except AuditUnavailableError:
            untold.put_nowait(entry)

    async def tell_late() -> None:
        while True:
            entry = await untold.get()
            await _until_done(
                partial(_write, audit, entry), again, "what went with deleted agents is", "in the audit"
            )

    principals.on_gone(lambda agent, token: tell("token.revoke", f"token/{token} agent/{agent.name}"))
    threads.on_gone(lambda agent, number: tell("threads/delete", f"agent/{agent.name} threads/{number}"))
    # Each at its own pace: a token does not count on while many threads are deleted.
    every: list[tuple[Belongings, str, str]] = [
        (principals, "tokens of deleted agents are", "revoked"),
        (threads, "threads of deleted agents are", "deleted"),
    ]
    news: list[asyncio.Queue[Gone]] = [asyncio.Queue() for _ in every]

    def spread(gone: Gone) -> None:
        for queue in news:
            queue.put_nowait(gone)

    directory.observe_gone(spread)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(tell_late(), name="audit of deleted agents")
        for (what, subject, done), queue in zip(every, news, strict=True):
            until_done = partial(_until_done, again=again, what=subject, done=done)
            tasks.create_task(_follow(directory, what, queue, until_done), name=f"{subject} {done}")


async def _follow(
    directory: Directory,
    what: Belongings,
    news: asyncio.Queue[Gone],
    until_done: Callable[[Callable[[], Awaitable[None]]], Awaitable[None]],
) -> None:
    async def make_up() -> None:
        await what.keep_agents(await directory.declared())

    async def end(gone: Gone) -> None:
        if gone.uid is None:  # its file could not be read: which agent it was the store alone knows
            await make_up()
        else:
            await what.agents_deleted(AgentKey(gone.name, gone.uid))

    await directory.filled()
    await until_done(make_up)
    while True:
        gone = await news.get()
        if gone.deleted:
            await until_done(partial(end, gone))


async def _write(audit: Audit, entry: Entry) -> None:
    audit.write(entry)


async def _until_done(do: Callable[[], Awaitable[None]], again: float, what: str, done: str) -> None:
    complained = False
    while True:
        try:
            await do()
        except (ControlError, StoreError, AuditUnavailableError) as error:
            if not complained:
                complained = True
                _log.error(f"{what} not {done} yet: {error}")
            await asyncio.sleep(again)
        else:
            return
