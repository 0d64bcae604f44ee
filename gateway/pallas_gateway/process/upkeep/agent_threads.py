"""The threads of agents that are deleted: they go with them, whoever owns them, and their turns end."""

from __future__ import annotations

from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger
from pallas_gateway.identity.principal import TENANT
from pallas_gateway.identity.sources import AgentKey, deleted_agents
from pallas_gateway.process.upkeep.portions import PORTION, delete_in_portions
from pallas_gateway.store.conversations import retention

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pallas_gateway.conversations.turns import Turns
    from pallas_gateway.store.conversations.retention import Deleted
    from pallas_gateway.store.database import Store

WHY = "the agent was deleted"

_log = get_logger("pallas.gateway.conversations")


class AgentThreads:
    """Threads, by their agents.

    Args:
        turns: those that are under way here.
        changed: is told of each thread that is deleted.
        count: is told how many were.
    """

    def __init__(
        self,
        store: Store,
        turns: Turns,
        changed: Callable[[Deleted], object] = lambda _: None,
        count: Callable[[int], object] = lambda _: None,
    ) -> None:
        self._store = store
        self._turns = turns
        self._changed = changed
        self._count = count
        self._gone_observers: list[Callable[[AgentKey, int], object]] = []

    def on_gone(self, observer: Callable[[AgentKey, int], object]) -> None:
        """Call `observer` with each agent of which threads were deleted, and how many they were."""
        self._gone_observers.append(observer)

    async def agents_deleted(self, *agents: AgentKey) -> None:
        """Agents are no more: nor are their threads. It raises what the store raises."""
        for agent in agents:
            await self._delete(agent, agent.uid or agent.name)

    async def keep_agents(self, declared: Mapping[str, str | None]) -> None:
        """Delete the threads of resources' agents that were deleted while nobody looked.

        It raises what the store raises.

        Args:
            declared: the name of each agent that there is, whether it can be used or not, with the uid of its resource;
                None where nobody can tell which one it is.
        """
        found = await self._store.read(partial(retention.agent_keys, tenant=TENANT))
        # The key of an agent of agents.yaml is its name.
        known = [AgentKey(name, None if key == name else key) for name, key in sorted(found)]
        await self.agents_deleted(*deleted_agents(known, declared))

    async def _delete(self, agent: AgentKey, key: str) -> None:
        delete = partial(retention.delete_threads_of_agent, tenant=TENANT, agent_key=key, limit=PORTION)
        number = 0
        self._turns.stop_of_agent(key, WHY)
        try:
            async with aclosing(delete_in_portions(self._store, delete)) as portions:
                async for portion in portions:
                    number += len(portion)
                    for each in portion:
                        self._changed(each)
        finally:
            self._turns.stop_of_agent(key, WHY)  # one that began meanwhile
            if number:
                _log.info(f"{number} threads of the agent {agent.name} are deleted with it")
                self._count(number)
                for observer in self._gone_observers:
                    observer(agent, number)
