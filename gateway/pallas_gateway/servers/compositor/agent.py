"""The compositor of one agent: its servers, the agents that it may run, and its own resources."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from pallas_gateway.directory import topics
from pallas_gateway.directory.events.topics import Topic
from pallas_gateway.directory.server_states import server_state
from pallas_gateway.servers.compositor.composed import Composed, unknown
from pallas_gateway.servers.compositor.mounts import AGENT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pallas_gateway.directory.directory import Directory
    from pallas_gateway.identity.principal import Principal
    from pallas_gateway.mcp.surface import ClientRequest, Relayed
    from pallas_gateway.servers.compositor.mounts import Mount, Mounts

type Json = dict[str, Any]

META = "resource://compositor_meta/state/"
_OF_SERVER = re.compile(re.escape(META) + r"[^/?#]+")
JSON = "application/json"


class AgentCompositor(Composed):
    """What an agent's own token sees at `/mcp`."""

    def __init__(self, mounts: Mounts, directory: Directory, principal: Principal) -> None:
        assert principal.agent is not None
        super().__init__(mounts, directory, principal, f"agent/{principal.agent}")
        self._name = principal.agent
        self._session = f"resource://agents/{self._name}/session/state"
        self._state = f"resource://agents/{self._name}/mcp/state"
        self._ui = f"resource://agents/{self._name}/ui/state"

    async def mounts(self) -> list[Mount]:
        """The agent's servers, and its own patterns."""
        upstream = await self._directory.upstream(self._name)
        if upstream is None:
            self._patterns = ()
            return self._shared.of(self._owner, ())
        self._patterns = upstream.tools
        mounts = self._shared.of(self._owner, upstream.servers)
        for mount in mounts:
            if (agent := self._hidden_by(mount)) is not None:
                self._shared.warn_of_name(self._owner, mount.name, agent)
        return mounts

    def _hidden_by(self, mount: Mount) -> str | None:
        """The agent whose place a server has by its name."""
        agent = mount.name.removeprefix(AGENT)
        return agent if agent != mount.name and agent in self._directory.agents else None

    def callees(self) -> Iterable[str]:
        """All others."""
        return [name for name in self._directory.agents if name != self._name]

    async def resources(self) -> list[Json]:
        """Its own before those of servers."""
        own = [
            {"uri": self._session, "name": "session state", "mimeType": JSON},
            {"uri": self._state, "name": "servers and their state", "mimeType": JSON},
            {"uri": self._ui, "name": "its conversations with others", "mimeType": JSON},
        ]
        mounts = await self._known()
        own += [
            {"uri": META + mount.name, "name": f"state of {mount.name}", "mimeType": JSON} for mount in mounts
        ]
        return own + [each for each in await super().resources() if not self._is_own(each["uri"])]

    async def templates(self) -> list[Json]:
        """Likewise."""
        own = {"uriTemplate": META + "{server}", "name": "state of a server", "mimeType": JSON}
        return [
            own,
            *(each for each in await super().templates() if each["uriTemplate"] != own["uriTemplate"]),
        ]

    async def read(self, uri: str, request: ClientRequest) -> Json | Relayed:
        """Its own, or a server's."""
        if not self._is_own(uri):
            return await super().read(uri, request)
        content: Any = None
        if uri == self._session:
            content = self._session_state()
        elif uri == self._ui:
            content = {"agent": self._name, **await self._shared.threads.state(self._principal)}
        else:
            mounts = await self.mounts()
            looked = await self._directory.servers_looked_at(self._name)
            records = [self._record(mount, looked.get(mount.name)) for mount in mounts]
            if uri == self._state:
                content = records
            else:
                name = uri.removeprefix(META)
                content = next((record for record in records if record["name"] == name), None)
        if content is None:
            raise unknown("resource", uri)
        return {"contents": [{"uri": uri, "mimeType": JSON, "text": json.dumps(content)}]}

    def _record(self, mount: Mount, looked: Json | None) -> Json:
        described = mount.upstream.describe()
        record = {"name": mount.name, **described, **server_state(described, looked)._asdict()}
        agent = self._hidden_by(mount)
        return record if agent is None else record | {"warning": f"its name hides the agent {agent} here"}

    def may_subscribe(self, uri: str) -> bool:
        """Whether it is the agent's own, or a server's."""
        return self._is_own(uri) or super().may_subscribe(uri)

    def topics(self, uri: str) -> tuple[Topic, ...]:
        """What changes when the resource does."""
        if uri == self._session:
            return (topics.agent_state(self._name),)
        if uri == self._ui:
            return (topics.threads_of(self._principal.subject, self._principal.tenant),)
        if uri == self._state:
            return (Topic("mcp/state", self._owner), topics.agent_state(self._name))
        if uri.startswith(META):
            server = Topic(f"server state {uri.removeprefix(META)}", self._owner)
            return (server, topics.agent_state(self._name))
        return super().topics(uri)

    def _is_own(self, uri: str) -> bool:
        return uri in (self._session, self._state, self._ui) or _OF_SERVER.fullmatch(uri) is not None

    def _session_state(self) -> Json | None:
        record = self._directory.agent(self._name)
        if record is None:
            return None
        return {
            "agent": self._name,
            "state": record.state,
            "health": record.health,
            "since": record.since,
            "generation": record.generation,
            "message": record.message,
        }
