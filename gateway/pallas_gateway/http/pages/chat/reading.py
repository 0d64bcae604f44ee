"""What a page shows, read from the directory and the store as its viewer may see it."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from pallas_gateway.access.predicate import may
from pallas_gateway.http.api.conversations.access import is_own
from pallas_gateway.http.api.conversations.threads import LONGEST_LINE, MOST_BYTES, cursor_of
from pallas_gateway.http.api.paging import decoded, encoded
from pallas_gateway.http.pages.view.facts import AgentFacts, ThreadFacts, ThreadList
from pallas_gateway.http.pages.view.messages import conversation, without_images
from pallas_gateway.identity.grants import Permission
from pallas_gateway.store.conversations import threads
from pallas_gateway.store.conversations.messages import list_messages

if TYPE_CHECKING:
    from pallas_common.http.html import Html
    from pallas_gateway.directory.directory import Directory
    from pallas_gateway.directory.records import AgentRecord
    from pallas_gateway.http.api.conversations.access import Conversations
    from pallas_gateway.identity.principal import Principal
    from pallas_gateway.store.conversations.records import Message, Thread

LISTED = 50
"""Conversations on a page of the list."""
SHOWN = 60
"""Messages that a conversation opens with."""


class Shown(NamedTuple):
    """A conversation as it is shown now."""

    facts: ThreadFacts
    agent: AgentFacts
    messages: Html
    is_own: bool
    can_retry: bool
    earlier: int | None
    """The index before which there are more messages; None where these are all."""


class Reading:
    """Agents and conversations, for pages."""

    def __init__(self, conversations: Conversations, directory: Directory) -> None:
        self._conversations = conversations
        self._directory = directory

    def agents(self, principal: Principal) -> list[AgentFacts]:
        """Those that the viewer may run, by name."""
        return [
            _agent(each)
            for name, each in sorted(self._directory.agents.items())
            if may(principal, Permission("run", "agents", name))
        ]

    def agent(self, principal: Principal, said: str) -> AgentFacts:
        """One of them.

        Raises:
            ApiError, InsufficientScopeError: there is none, or it may not be run.
        """
        return _agent(self._conversations.agent(principal, said))

    async def list(
        self, principal: Principal, *, query: str = "", before: str = "", current: str | None = None
    ) -> ThreadList:
        """A page of the viewer's conversations.

        Args:
            query: words that are searched for.
            before: the cursor of another page.
            current: the conversation that is looked at.

        Raises:
            ApiError: the cursor is none.
        """
        query = query[:LONGEST_LINE].strip()
        if not self.agents(principal):
            return ThreadList((), query)
        found = await self._conversations.read(
            partial(
                threads.list_threads,
                tenant=principal.tenant,
                owner=principal.subject,
                agent_keys=self._conversations.runnable(principal),
                query=query or None,
                after=cursor_of(decoded(before)) if before else None,
                limit=LISTED + 1,
            )
        )
        part = found[:LISTED]
        last = part[-1].cursor if len(found) > len(part) else None
        return ThreadList(
            [self._facts(each) for each in part],
            query,
            is_first=not before,
            more=None if last is None else encoded([last.active.isoformat(), last.id]),
            current=current,
        )

    async def thread(
        self, principal: Principal, said: str, *, begin: int | None = None, end: int | None = None
    ) -> Shown:
        """A conversation with its newest messages.

        Args:
            begin: the index of the first message that is wanted; by default so many that it opens fast.
            end: the index behind the last one; by default all.

        Raises:
            ApiError, InsufficientScopeError: there is none, or it may not be read.
        """
        thread, record = await self._conversations.thread(principal, said, "view", on_agent="view")
        last = thread.length if end is None else min(end, thread.length)
        first = max(0, last - SHOWN) if begin is None else min(begin, last)
        first = max(first, last - SHOWN * 4)
        found: list[Message] = []
        while len(found) < last - first:
            some = await self._conversations.read(
                partial(
                    list_messages,
                    tenant=thread.tenant,
                    thread=thread.id,
                    after=first - 1 + len(found),
                    limit=last - first - len(found),
                    longest=MOST_BYTES,
                )
            )
            if not some:
                break
            found += map(without_images, some)
        agent = _agent(record)
        facts = self._facts(thread)
        render = partial(
            conversation,
            found,
            thread=thread.id,
            agent=agent.title,
            running=thread.turn if facts.is_running else None,
        )
        return Shown(
            facts,
            agent,
            await asyncio.to_thread(render),  # Markdown takes its time, and others wait meanwhile
            is_own=is_own(principal, thread),
            can_retry=thread.length > 0 and not facts.is_running,
            earlier=first if first > 0 else None,
        )

    def _facts(self, thread: Thread) -> ThreadFacts:
        return ThreadFacts(
            thread.id, thread.title, thread.agent, thread.active, is_running=thread.turn is not None
        )


def _agent(record: AgentRecord) -> AgentFacts:
    return AgentFacts(
        name=record.name,
        title=record.title or record.name,
        description=record.description if record.description != record.title else "",
        state=record.state,
        health=record.health,
        message=record.message,
    )
