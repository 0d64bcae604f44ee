"""What tools and resources of the management server work with, and what each call has of its own."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pallas_gateway.access.predicate import may, may_see_agent
from pallas_gateway.identity.grants import Permission
from pallas_gateway.mcp.errors import AGENT_NOT_FOUND
from pallas_gateway.mcp.surface import InsufficientScopeError, McpError
from pallas_gateway.servers.management.content.presets import Presets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pallas_gateway.conversations.worker import WorkerChats
    from pallas_gateway.directory.control import ControlClient
    from pallas_gateway.directory.directory import Directory
    from pallas_gateway.directory.events.topics import Topic
    from pallas_gateway.directory.records import AgentRecord
    from pallas_gateway.identity.grants import Verb
    from pallas_gateway.identity.principal import Principal
    from pallas_gateway.mcp.surface import ClientRequest
    from pallas_gateway.servers.chat.turns import ThreadTurns

type Json = dict[str, Any]

LOOK_INTERVAL = 5.0
"""Seconds between two looks at whether the project's presets have changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The parts that all calls share."""

    directory: Directory
    chats: WorkerChats
    threads: ThreadTurns
    presets: Presets = field(default_factory=Presets)
    composed: Callable[[str], Mapping[str, Json]] = lambda _: {}
    """How the gateway's connections to an agent's servers are, as far as it has any."""

    @property
    def control(self) -> ControlClient:
        """The control API."""
        return self.directory.client

    @property
    def project_directory(self) -> str | None:
        """Of the deployment."""
        return self.directory.supervisor.get("directory")

    async def watch_presets(self, publish: Callable[..., None], *changed: Topic) -> None:
        """Tell of changes of the project's presets until this is cancelled."""
        await self.directory.filled()
        known = await asyncio.to_thread(self.presets.signature, self.project_directory)
        while True:
            await asyncio.sleep(LOOK_INTERVAL)
            now = await asyncio.to_thread(self.presets.signature, self.project_directory)
            if now != known:
                known = now
                publish(*changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a tool, or reading of a resource."""

    context: Context
    principal: Principal
    request: ClientRequest

    @property
    def directory(self) -> Directory:
        """What is known of the deployment."""
        return self.context.directory

    def visible_agents(self) -> list[AgentRecord]:
        """All agents that the principal may view."""
        principal = self.principal
        return [each for each in self.directory.agents.values() if may_see_agent(principal, each.name)]

    def agent(self, name_or_uid: str, verb: Verb) -> AgentRecord:
        """An agent with which the principal may do that.

        Raises:
            McpError: there is none, as far as the principal may know.
            InsufficientScopeError: the principal may view it, and no more.
        """
        record = self.directory.agent(name_or_uid)
        if record is not None:
            permission = Permission(verb, "agents", record.name)
            if may(self.principal, permission):
                return record
            # `run` on a resource is the right to name it, and not to ask the agent.
            by_resource = Permission(verb, "resources", f"agent/{record.name}")
            if verb in ("edit", "delete") and may(self.principal, by_resource):
                return record
            if may_see_agent(self.principal, record.name):
                raise InsufficientScopeError(permission)
        raise no_such_agent(name_or_uid)


def no_such_agent(name: str) -> McpError:
    """The error for an agent that is not there, or of which the principal may not know."""
    shown = name[:100]
    return McpError(
        AGENT_NOT_FOUND,
        f"there is no agent {shown!r}; `agents_list` has those that there are",
        {"type": "agent_not_found", "agent": shown},
    )
