"""Which agents and threads a principal may use over REST, and the store as a request asks it.

A thread is its owner's; others need a grant for `threads`, of which the name is the agent's. What is done with it needs
the grant on the agent as well. What one may not view is not there.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

from pallas_common.problems import quoted
from pallas_gateway.access.predicate import may, may_see_agent, may_some
from pallas_gateway.conversations.turns import agent_key
from pallas_gateway.http.errors import ApiError
from pallas_gateway.identity.grants import Permission
from pallas_gateway.mcp.surface import InsufficientScopeError
from pallas_gateway.store.conversations import threads
from pallas_gateway.store.conversations.records import ThreadGoneError
from pallas_gateway.store.errors import StorageExceededError, StoreError
from pallas_gateway.store.usage import check_room

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

    from pallas_gateway.directory.directory import Directory
    from pallas_gateway.directory.records import AgentRecord
    from pallas_gateway.identity.grants import Verb
    from pallas_gateway.identity.principal import Principal
    from pallas_gateway.store.conversations.records import Thread
    from pallas_gateway.store.database import Store
    from pallas_gateway.store.usage import Room

type Json = dict[str, Any]

_ID = re.compile(r"[A-Za-z0-9-]{1,64}")
RETRY_STORE = {"retry-after": "5"}


class Conversations:
    """Agents and threads, as principals may use them.

    Args:
        room: how much may be kept.
        changed: is to be told of each thread that is made, renamed or deleted, after it is.
    """

    def __init__(
        self,
        store: Store,
        directory: Directory,
        room: Room,
        changed: Callable[[Thread], object] = lambda _: None,
    ) -> None:
        self._store = store
        self._directory = directory
        self._room = room
        self.changed = changed

    async def read[T](self, what: Callable[[Connection], T]) -> T:
        """What the store says.

        Raises:
            ApiError: it does not answer.
        """
        try:
            return await self._store.read(what)
        except StoreError as error:
            raise unavailable(error) from error

    async def write[T](self, what: Callable[[Connection], T], *, frees: bool = False) -> T:
        """What the store says to a change, once that is kept.

        Args:
            frees: whether it deletes, and may use what is kept for that on a full disk.

        Raises:
            ApiError: it does not answer; the change may be kept all the same.
        """
        try:
            return await self._store.write(what, frees=frees)
        except StoreError as error:
            raise unavailable(error) from error

    async def write_thread(self, make: Callable[[Connection], Thread]) -> Thread:
        """A thread that is made, if there is room for it.

        Raises:
            ApiError: the store does not answer, or more would be kept than may be.
        """

        def within(connection: Connection) -> Thread:
            thread = make(connection)
            check_room(connection, self._room, tenant=thread.tenant, owner=thread.owner)
            return thread

        return await self.write(within)

    def agent(self, principal: Principal, said: str) -> AgentRecord:
        """The agent of that name or uid, which the principal may run.

        Raises:
            ApiError: there is none, as far as the principal may know.
            InsufficientScopeError: the principal may view it, and no more.
        """
        record = self._directory.agent(said)
        if record is not None:
            permission = Permission("run", "agents", record.name)
            if may(principal, permission):
                return record
            if may_see_agent(principal, record.name):
                raise InsufficientScopeError(permission)
        raise self._none(f"there is no agent {quoted(said)}")

    def runnable(self, principal: Principal) -> set[str] | None:
        """The keys of all agents that the principal may run; None for all that there are.

        Raises:
            InsufficientScopeError: it has no grant to run any.
        """
        if not may_some(principal, "run", "agents"):
            raise InsufficientScopeError(Permission("run", "agents"))
        if may(principal, Permission("run", "agents")):
            return None
        return {
            agent_key(each)
            for each in self._directory.agents.values()
            if may(principal, Permission("run", "agents", each.name))
        }

    async def thread(
        self, principal: Principal, said: str, verb: Verb, *, on_agent: Verb = "run"
    ) -> tuple[Thread, AgentRecord]:
        """A thread with which the principal may do that, and its agent.

        Args:
            verb: with a thread of somebody else.
            on_agent: what it takes of the agent.

        Raises:
            ApiError: there is none, as far as the principal may know.
            InsufficientScopeError: the principal may view it, and no more.
        """
        nothing = self._none(f"there is no thread {quoted(said)}")
        if _ID.fullmatch(said) is None:
            raise nothing
        found = await self.read(partial(threads.find_thread, tenant=principal.tenant, id=said))
        if found is None:
            raise nothing
        if not is_own(principal, found):
            if not may(principal, Permission("view", "threads", found.agent)):
                raise nothing
            if not may(principal, permission := Permission(verb, "threads", found.agent)):
                raise InsufficientScopeError(permission)
        record = self._directory.agents.get(found.agent)
        if record is None or agent_key(record) != found.agent_key:
            raise nothing  # it goes with its agent
        permission = Permission(on_agent, "agents", record.name)
        # An agent's token may run agents and nothing else: what it has said and heard it may read again.
        is_agents = principal.role == "agent" and may(principal, Permission("run", "agents", record.name))
        if not is_agents and not may(principal, permission):
            raise InsufficientScopeError(permission)
        return found, record

    def _none(self, message: str) -> ApiError:
        """Not there; or maybe there, where the supervisor has not told yet."""
        if self._directory.away is not None and not self._directory.agents:
            return ApiError(503, "unavailable", self._directory.away, headers=RETRY_STORE)
        return ApiError(404, "not_found", message)


def is_own(principal: Principal, thread: Thread) -> bool:
    """Whether the thread is the principal's."""
    return thread.owner == principal.subject


def unavailable(error: Exception) -> ApiError:
    """For a store that does not answer."""
    if isinstance(error, ThreadGoneError):
        return ApiError(404, "not_found", "the thread is not there any more")
    if isinstance(error, StorageExceededError):
        return ApiError(error.status, error.type, str(error))
    return ApiError(503, "unavailable", str(error), headers=RETRY_STORE)
