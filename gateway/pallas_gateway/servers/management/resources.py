"""The resources of the management server and their templates, as a table: URI, what it takes, content, topic."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, quote, unquote

from pallas_control.errors import ControlError, UnknownAgentError
from pallas_gateway.access.predicate import may, may_see_agent, may_some
from pallas_gateway.access.reading import shown
from pallas_gateway.directory import topics
from pallas_gateway.directory.events.topics import Topic
from pallas_gateway.identity.grants import Permission
from pallas_gateway.mcp.errors import INTERNAL_ERROR, INVALID_PARAMS
from pallas_gateway.mcp.surface import McpError
from pallas_gateway.servers.management.content import documents
from pallas_gateway.servers.management.content.container import container_info
from pallas_gateway.servers.management.context import no_such_agent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from pallas_gateway.directory.directory import Directory
    from pallas_gateway.directory.records import AgentRecord
    from pallas_gateway.identity.principal import Principal
    from pallas_gateway.servers.management.context import Call

type Json = dict[str, Any]
type Variables = Mapping[str, str]

JSON = "application/json"
LONGEST_URI = 2000
MOST_PARAMETERS = 10
"""Of a URI's query."""
PRESETS = Topic("presets")


class Resource(NamedTuple):
    """One resource, or a template of many."""

    uri: str
    """With `{variable}` in it of a template (RFC 6570)."""
    name: str
    title: str
    description: str
    read: Callable[[Call, Variables], Awaitable[Any]]
    """Its content, as JSON has it."""
    topic: Callable[[str], Topic] | None
    """Of the agent that it is about; of none, of an empty name."""
    of_agent: str | None = None
    """The variable that says which agent it is about, by name, uid or `agentlet` URI."""
    has_threads: bool = False
    """Whether it tells of the principal's own threads with the agent."""

    @property
    def permission(self) -> Permission:
        """What it takes, for all agents; of what is of no agent, for some."""
        return Permission("view", "agents")

    @property
    def is_template(self) -> bool:
        """Whether it stands for many."""
        return "{" in self.uri

    def document(self) -> Json:
        """As `resources/list` or `resources/templates/list` has it."""
        key = "uriTemplate" if self.is_template else "uri"
        return {
            key: self.uri,
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "mimeType": JSON,
        }


class Found(NamedTuple):
    """What a URI stands for."""

    resource: Resource
    variables: Variables

    def agent(self, directory: Directory) -> str | None:
        """Name of the agent that it is about; None where it is about none."""
        if self.resource.of_agent is None:
            return None
        said = self.variables.get(self.resource.of_agent, "")
        _, name = documents.parse_agent_uri(said)
        record = directory.agent(name)
        return name if record is None else record.name

    def may_read(self, principal: Principal, directory: Directory) -> bool:
        """Whether the principal may read it, and hear of it."""
        name = self.agent(directory)
        if name is None:
            return may_some(principal, "view", "agents")
        return may(principal, Permission("view", "agents", name))

    def topics(self, principal: Principal, directory: Directory) -> tuple[Topic, ...]:
        """What changes when it does."""
        agent = self.agent(directory) or ""
        found = [] if self.resource.topic is None else [self.resource.topic(agent)]
        if self.resource.has_threads:
            found.append(topics.threads_with(agent, principal.subject, principal.tenant))
        return tuple(found)


def find(uri: str) -> Found | None:
    """What a URI stands for; None for what is none of ours."""
    if len(uri) > LONGEST_URI:
        return None
    if uri.count("&") >= MOST_PARAMETERS:
        return None
    for pattern, resource in _PATTERNS:
        if (match := pattern.fullmatch(uri)) is not None:
            said = {name: value for name, value in match.groupdict().items() if value}
            query = parse_qs(said.pop("query_", ""), max_num_fields=MOST_PARAMETERS)
            variables = {name: unquote(value) for name, value in said.items()}
            variables |= {name: values[0] for name, values in query.items() if name not in variables}
            return Found(resource, variables)
    return None


async def _declared(call: Call, record: AgentRecord) -> Json:
    """The document of the agent's resource, as the principal may see it."""
    path = f"/v1/resources/agent/{quote(record.name, safe='')}"
    return shown(call.principal, await _asked(call, record, path))


async def _described(call: Call, record: AgentRecord) -> Json:
    return await _asked(call, record, f"/v1/agents/{quote(record.name, safe='')}")


async def _asked(call: Call, record: AgentRecord, path: str) -> Json:
    try:
        return await call.context.control.get(path)
    except UnknownAgentError:
        raise no_such_agent(record.name) from None
    except ControlError as error:
        raise McpError(INTERNAL_ERROR, str(error), {"type": "supervisor_away"}) from None


def _record(call: Call, said: str) -> AgentRecord:
    """An agent that the principal may view."""
    record = call.directory.agent(said)
    if record is None or not may_see_agent(call.principal, record.name):
        raise no_such_agent(said)
    return record


async def _list(call: Call, _variables: Variables) -> Any:
    return [documents.agent_record(each) for each in call.visible_agents()]


async def _info(call: Call, variables: Variables) -> Any:
    record = _record(call, variables["agent_id"])
    return documents.agent_info(record, await _declared(call, record))


async def _state(call: Call, variables: Variables) -> Any:
    return documents.agent_state(_record(call, variables["agent_id"]))


async def _snapshot(call: Call, variables: Variables) -> Any:
    record = _record(call, variables["agent_id"])
    description = await _described(call, record)
    description["depends_on"] = [
        each
        for each in description.get("depends_on") or ()
        if may_see_agent(call.principal, each.get("name", ""))
    ]
    info = documents.agent_info(record, await _declared(call, record))
    runs = await call.context.threads.runs(call.principal, record)
    composed = call.context.composed(record.name)
    return documents.agent_snapshot(info, documents.agent_state(record), description, runs, composed)


async def _ui_state(call: Call, variables: Variables) -> Any:
    record = _record(call, variables["agent_id"])
    return {"agent": record.name, **await call.context.threads.state(call.principal, record)}


async def _presets(call: Call, _variables: Variables) -> Any:
    return await asyncio.to_thread(call.context.presets.all, call.context.project_directory)


async def _container(call: Call, _variables: Variables) -> Any:
    return await asyncio.to_thread(container_info, call.directory.supervisor)


async def _mount(call: Call, variables: Variables) -> Any:
    if not variables.get("agent"):
        raise McpError(
            INVALID_PARAMS,
            "say of which agent, as in resource://compositor_meta/state/search?agent=jarvis",
            {"type": "invalid_argument", "field": "uri"},
        )
    record = _record(call, variables["agent"])
    served = (await _described(call, record)).get("served") or {}
    for server in served.get("servers") or ():
        if server.get("name") == variables["server"]:
            return {
                "agent": record.name,
                **documents.server_document(server, call.context.composed(record.name)),
            }
    raise McpError(
        INVALID_PARAMS,
        f"{record.name} has no server {variables['server'][:100]!r}, as far as is known; none is before its start",
        {"type": "not_found", "field": "uri"},
    )


async def _agentlet(call: Call, variables: Variables) -> Any:
    owner, name = documents.parse_agent_uri(f"{documents.URI}{variables['uri']}")
    record = _record(call, name)
    if owner is not None and owner != record.owner:
        raise no_such_agent(name)
    return documents.agentlet(record, await _declared(call, record))


async def _system_agents(call: Call, variables: Variables) -> Any:
    found = [documents.agentlet_entry(each) for each in call.visible_agents() if not each.is_resource]
    return found + [
        _preset_entry(each) for each in await _presets(call, variables) if each["kind"] == "agent"
    ]


def _preset_entry(preset: Json) -> Json:
    return {
        "fully_qualified_name": f"preset/{preset['name']}",
        "title": preset["name"].title(),
        "description": preset["description"],
        "output_schema": preset["output_schema"],
        "preset": preset["name"],
    }


async def _my_agents(call: Call, _variables: Variables) -> Any:
    mine = call.principal.name
    return [
        documents.agentlet_entry(each)
        for each in call.visible_agents()
        if each.is_resource and each.owner == mine
    ]


RESOURCES: tuple[Resource, ...] = (
    Resource(
        "resource://agents/list",
        "agents",
        "Agents",
        "All agents that you may view",
        _list,
        lambda _: topics.AGENTS,
    ),
    Resource(
        "resource://presets/list",
        "presets",
        "Presets",
        "Agents to begin with: shipped ones, and those in the project's `presets/`",
        _presets,
        lambda _: PRESETS,
    ),
    Resource(
        "resource://container.info",
        "container",
        "Runtime",
        "What the agents run in: interpreter, versions, limits",
        _container,
        lambda _: topics.SUPERVISOR,
    ),
    Resource(
        "system-agents://list",
        "system-agents",
        "Agents of the system",
        "Agents of agents.yaml, and presets",
        _system_agents,
        lambda _: topics.AGENTS,
    ),
    Resource(
        "my-agents://list",
        "my-agents",
        "My agents",
        "Agents that you have created",
        _my_agents,
        lambda _: topics.AGENTS,
    ),
)

TEMPLATES: tuple[Resource, ...] = (
    Resource(
        "resource://agents/{agent_id}/info",
        "agent-info",
        "An agent",
        "What an agent is declared to be",
        _info,
        topics.agent_info,
        "agent_id",
    ),
    Resource(
        "resource://agents/{agent_id}/state",
        "agent-state",
        "State of an agent",
        "idle, running or suspended, since when, and why",
        _state,
        topics.agent_state,
        "agent_id",
    ),
    Resource(
        "resource://agents/{agent_id}/snapshot",
        "agent-snapshot",
        "All of an agent",
        "Declaration, state, model and MCP servers of an agent, and your turns with it",
        _snapshot,
        topics.agent_snapshot,
        "agent_id",
        has_threads=True,
    ),
    Resource(
        "resource://agents/{agent_id}/ui/state",
        "agent-ui-state",
        "Conversations with an agent",
        "Your own threads with an agent, and what was said last",
        _ui_state,
        None,
        "agent_id",
        has_threads=True,
    ),
    Resource(
        "resource://compositor_meta/state/{server}{?agent}",
        "mcp-server-state",
        "State of an agent's MCP server",
        "initializing, running or failed",
        _mount,
        topics.agent_snapshot,
        "agent",
    ),
    Resource(
        "agentlet://{uri}",
        "agentlet",
        "An agent as a schema",
        "System prompt, schema of its answers, tools",
        _agentlet,
        topics.agent_info,
        "uri",
    ),
)


def _pattern(uri: str) -> re.Pattern[str]:
    pieces = re.split(r"(\{\??\w+\})", uri)
    found = ""
    for piece in pieces:
        if piece.startswith("{?"):
            found += r"(?:\?(?P<query_>[^#]*))?"
        elif piece == "{uri}":
            found += r"(?P<uri>[^?#]+)"
        elif piece.startswith("{"):
            found += rf"(?P<{piece[1:-1]}>[^/?#]+)"
        else:
            found += re.escape(piece)
    return re.compile(found)


_PATTERNS = [(_pattern(each.uri), each) for each in (*RESOURCES, *TEMPLATES)]
