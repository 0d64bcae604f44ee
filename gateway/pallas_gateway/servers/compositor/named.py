"""The server that is one agent, with the one tool `chat`, and the server of a project."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pallas_common import __version__
from pallas_gateway.access.predicate import may
from pallas_gateway.directory.events.topics import Topic
from pallas_gateway.identity.grants import Permission
from pallas_gateway.servers.compositor.composed import Composed, check_known, unknown
from pallas_gateway.servers.compositor.mounts import CHAT, chat_tool

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pallas_gateway.directory.directory import Directory
    from pallas_gateway.identity.principal import Principal
    from pallas_gateway.mcp.surface import ClientRequest, ListKind, Relayed
    from pallas_gateway.servers.compositor.mounts import Mount, Mounts

type Json = dict[str, Any]


class AgentServer(Composed):
    """`/mcp/agents/<name>`, for those that may run the agent."""

    def __init__(self, mounts: Mounts, directory: Directory, principal: Principal, name: str) -> None:
        super().__init__(mounts, directory, principal, f"agent/{name}")
        self._name = name

    async def mounts(self) -> list[Mount]:
        """None: the agent's servers are its own."""
        return []

    def here(self) -> list[Mount]:
        """None."""
        return []

    def callees(self) -> Iterable[str]:
        """The agent."""
        return [self._name] if self._directory.agent(self._name) is not None else []

    @property
    def lists(self) -> frozenset[ListKind]:
        """Tools alone."""
        return frozenset(("tools",))

    @property
    def completes(self) -> bool:
        """Nothing."""
        return False

    @property
    def info(self) -> Json:
        """`serverInfo`."""
        return {"name": f"agent-{self._name}", "title": self._name, "version": __version__}

    @property
    def instructions(self) -> str | None:
        """The agent's description."""
        return self._describe(self._name)

    async def tools(self) -> list[Json]:
        """The one."""
        return [chat_tool(CHAT, self._describe(name)) for name in self._runnable()]

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], request: ClientRequest
    ) -> Json | Relayed:
        """The agent's answer."""
        await self._directory.upstream(self._name)
        check_known(self._directory)
        if name != CHAT or not self._runnable():
            raise unknown("tool", name)
        return await self._chat(self._name, name, arguments, request)

    def list_topic(self, kind: ListKind) -> Topic:
        """What changes when the list does."""
        return Topic(kind, self._owner)


class ProjectServer(Composed):
    """`/mcp/projects/<name>`: seen with `view:projects:<name>`; its servers are used with `run:projects:<name>`."""

    def __init__(self, mounts: Mounts, directory: Directory, principal: Principal, name: str) -> None:
        super().__init__(mounts, directory, principal, f"project/{name}")
        self._name = name
        self._agents: tuple[str, ...] = ()

    async def mounts(self) -> list[Mount]:
        """The project's servers, for those that may run it."""
        project = await self._directory.project_upstream(self._name)
        self._agents = () if project is None else project.agents
        if project is None:
            return self._shared.of(self._owner, ())
        return self._shared.of(self._owner, project.servers) if self._may_use() else []

    def here(self) -> list[Mount]:
        """Likewise: what others may use is no affair of those who may not."""
        return super().here() if self._may_use() else []

    def _may_use(self) -> bool:
        return may(self._principal, Permission("run", "projects", self._name))

    def callees(self) -> Iterable[str]:
        """The project's agents."""
        return self._agents

    async def prompts(self) -> list[Json]:
        """The project's own, before those of servers."""
        project = await self._directory.project_upstream(self._name)
        own = () if project is None else project.prompts
        return [
            {"name": prompt.name, "description": prompt.description} for prompt in own
        ] + await super().prompts()

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str], request: ClientRequest
    ) -> Json | Relayed:
        """The project's own, or a server's."""
        project = await self._directory.project_upstream(self._name)
        for prompt in () if project is None else project.prompts:
            if prompt.name == name:
                content = {"type": "text", "text": prompt.text}
                return {
                    "description": prompt.description,
                    "messages": [{"role": "user", "content": content}],
                }
        return await super().get_prompt(name, arguments, request)
