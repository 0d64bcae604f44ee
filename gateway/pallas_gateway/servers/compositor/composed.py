"""What the compositor of an agent and the server of a project have in common: servers and agents under one address."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pallas_common import __version__
from pallas_gateway.access.predicate import may
from pallas_gateway.directory.events.topics import Topic
from pallas_gateway.identity.grants import Permission
from pallas_gateway.mcp.errors import INTERNAL_ERROR, INVALID_PARAMS
from pallas_gateway.mcp.surface import McpError
from pallas_gateway.servers.compositor.mounts import (
    agent_of,
    allowed,
    chat_name,
    chat_tool,
    entries,
    find,
    mount_of,
    tools_shown,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pallas_gateway.directory.directory import Directory
    from pallas_gateway.identity.principal import Principal
    from pallas_gateway.mcp.surface import ClientRequest, ListKind, Relayed
    from pallas_gateway.servers.compositor.mounts import Mount, Mounts

type Json = dict[str, Any]


def unknown(what: str, name: str) -> McpError:
    """There is none, as far as the principal may know."""
    data = {"type": "not_found"} | ({"uri": name[:500]} if what == "resource" else {})
    return McpError(INVALID_PARAMS, f"there is no {what} {name[:200]!r}", data)


def check_known(directory: Directory) -> None:
    """Raise what clients are told before it is known what there is: an empty list would be taken for the truth."""
    if not directory.knows_ways:
        why = directory.away or "the supervisor has not said yet what there is"
        data = {"type": "unavailable", "retry_after_ms": 1000}
        raise McpError(INTERNAL_ERROR, f"the gateway does not know its agents: {why}", data, status=503)


class Composed:
    """Servers' tools, prompts and resources beside agents to talk to."""

    def __init__(self, mounts: Mounts, directory: Directory, principal: Principal, owner: str) -> None:
        self._shared = mounts
        self._directory = directory
        self._principal = principal
        self._owner = owner
        self._last: list[Mount] | None = None
        self._patterns: tuple[str, ...] | None = None

    # What differs.

    async def mounts(self) -> list[Mount]:
        """The servers that the principal may use, and `_patterns`."""
        raise NotImplementedError

    def here(self) -> list[Mount]:
        """The same as they were last known, of the principal or of others who ask here."""
        return self._shared.last(self._owner)

    def callees(self) -> Iterable[str]:
        """The names of agents that are here, whether or not the principal may run them."""
        raise NotImplementedError

    # What a surface is.

    @property
    def info(self) -> Json:
        """`serverInfo`."""
        return {"name": self._owner.replace("/", "-"), "version": __version__}

    @property
    def instructions(self) -> str | None:
        """None: each server says its own."""
        return None

    @property
    def lists(self) -> frozenset[ListKind]:
        """The lists that there are."""
        return frozenset(("tools", "prompts", "resources"))

    @property
    def completes(self) -> bool:
        """Names of servers."""
        return True

    async def tools(self) -> list[Json]:
        """The servers' tools that may be called, and a chat with each agent that may be run."""
        mounts = await self._known()
        found = tools_shown(mounts, self._patterns)
        names = {tool["name"] for tool in found}
        servers = {mount.name for mount in mounts}
        for agent in self._runnable():
            name = chat_name(agent)
            if name not in names and f"agent-{agent}" not in servers and allowed(name, self._patterns):
                found.append(chat_tool(name, self._describe(agent)))
        return found

    async def prompts(self) -> list[Json]:
        """The servers'."""
        return entries(await self._known(), "prompts")

    async def resources(self) -> list[Json]:
        """The servers', by their own URIs; of several of one URI the first server's."""
        found: dict[str, Json] = {}
        for mount in await self._known():
            for each in mount.upstream.listed("resources"):
                found.setdefault(each["uri"], each)
        return list(found.values())

    async def templates(self) -> list[Json]:
        """The servers'."""
        found: dict[str, Json] = {}
        for mount in await self._known():
            for each in mount.upstream.listed("templates"):
                found.setdefault(each["uriTemplate"], each)
        return list(found.values())

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], request: ClientRequest
    ) -> Json | Relayed:
        """The answer of the server or agent, as it came."""
        mounts = self._last or await self._known()
        if not allowed(name, self._patterns):
            raise unknown("tool", name)
        found = find(mounts, "tools", name)
        if found is not None:
            mount, tool = found
            params = dict(request.params) | {"name": tool["name"]}
            return await self._shared.call(mount, "tools/call", params, request, tool)
        agent = agent_of(name)
        servers = {mount.name for mount in mounts}
        if agent is None or agent not in self._runnable() or f"agent-{agent}" in servers:
            self._say_if_failed(mounts, name)
            raise unknown("tool", name)
        return await self._chat(agent, name, arguments, request)

    async def header_schema(self, name: str) -> Json | None:
        """Of a server's tool, as it is listed."""
        found = find(await self._known(), "tools", name)
        if found is None:
            return None
        mount, tool = found
        return tool["inputSchema"] if mount.upstream.mirrors(tool["name"]) else None

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str], request: ClientRequest
    ) -> Json | Relayed:
        """The server's."""
        found = find(await self._known(), "prompts", name)
        if found is None:
            raise unknown("prompt", name)
        mount, prompt = found
        params = dict(request.params) | {"name": prompt["name"]}
        return await self._shared.call(mount, "prompts/get", params, request)

    async def read(self, uri: str, request: ClientRequest) -> Json | Relayed:
        """The server's."""
        await self._known()
        mount = self._mount_of(uri)
        if mount is None:
            raise unknown("resource", uri)
        return await self._shared.call(mount, "resources/read", dict(request.params), request)

    async def complete(self, ref: Json, argument: Json, request: ClientRequest) -> Json | Relayed:
        """Names of servers; what a server says of the arguments of its own prompts and templates."""
        mounts = await self._known()
        name, own = ref.get("name"), dict(ref)
        mount: Mount | None = None
        if ref.get("type") == "ref/prompt":
            if (found := find(mounts, "prompts", str(name))) is not None:
                mount, own["name"] = found[0], found[1]["name"]
        else:
            templates = (
                (each, template) for each in mounts for template in each.upstream.listed("templates")
            )
            mount = next((each for each, found in templates if found["uriTemplate"] == ref.get("uri")), None)
        if mount is not None and mount.upstream.completes:
            params = dict(request.params) | {"ref": own}
            return await self._shared.call(mount, "completion/complete", params, request)
        values: list[str] = []
        if ref.get("type") == "ref/resource" and argument.get("name") == "server":
            start = str(argument.get("value", ""))
            values = [each.name for each in mounts if each.name.startswith(start)][:100]
        return {"completion": {"values": values, "total": len(values), "hasMore": False}}

    async def ready(self) -> None:
        """The servers are known."""
        await self._known()

    def may_subscribe(self, uri: str) -> bool:
        """Whether it is a resource of a server that is here."""
        return self._mount_of(uri) is not None

    def topics(self, uri: str) -> tuple[Topic, ...]:
        """What changes when the resource does."""
        return (Topic(uri, self._owner),)

    def list_topic(self, kind: ListKind) -> Topic:
        """What changes when the list does."""
        return Topic(kind, self._owner)

    def audited(self, name: str, arguments: Mapping[str, Any]) -> str:
        """`jarvis/git__commit`; what a server's arguments stand for is the server's own."""
        return f"{self._owner.partition('/')[2]}/{name}"

    # Helpers.

    async def _known(self) -> list[Mount]:
        self._last = await self.mounts()
        check_known(self._directory)
        await self._shared.known(self._last)
        return self._last

    async def _chat(
        self, agent: str, name: str, arguments: Mapping[str, Any], request: ClientRequest
    ) -> Json | Relayed:
        """The answer of an agent that may be run, asked by the tool of that name."""
        record, upstream = self._directory.agent(agent), await self._directory.upstream(agent)
        if record is None or upstream is None:
            raise unknown("tool", name)
        return await self._shared.chat(record, upstream, arguments, request)

    def _runnable(self) -> list[str]:
        return [name for name in self.callees() if may(self._principal, Permission("run", "agents", name))]

    def _describe(self, agent: str) -> str:
        record = self._directory.agent(agent)
        return (record.description if record else "") or f"Talk to the agent {agent}."

    def _mount_of(self, uri: str) -> Mount | None:
        return mount_of(self.here(), uri)

    def _say_if_failed(self, mounts: list[Mount], name: str) -> None:
        """Raise what is wrong with the server whose tool it would be."""
        for mount in mounts:
            if name.startswith(mount.name + "__") and mount.upstream.state != "running":
                reason = mount.upstream.reason or "it is not known yet"
                self._shared.observed(mount.name, False, 0.0)
                raise McpError(
                    INVALID_PARAMS,
                    f"the server {mount.name} cannot be used: {reason}",
                    {"type": "server_failed", "server": mount.name},
                )
