"""The management server as one person or program sees it: lists have exactly what may be used."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from pallas_common import __version__
from pallas_common.problems import quoted
from pallas_common.secrets.patterns import KEY_SHAPES, redact
from pallas_common.secrets.tokens import without_tokens
from pallas_gateway.access.predicate import may_some
from pallas_gateway.access.writing import may_some_of
from pallas_gateway.directory.events.topics import Topic
from pallas_gateway.identity.grants import Permission
from pallas_gateway.mcp.errors import INVALID_PARAMS
from pallas_gateway.mcp.surface import InsufficientScopeError, McpError
from pallas_gateway.servers.management import completion
from pallas_gateway.servers.management.agents import dependents
from pallas_gateway.servers.management.arguments import ToolError
from pallas_gateway.servers.management.content.documents import parse_agent_uri
from pallas_gateway.servers.management.context import Call
from pallas_gateway.servers.management.resources import JSON, RESOURCES, TEMPLATES, find
from pallas_gateway.servers.management.tools import BY_NAME, TOOLS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pallas_gateway.identity.principal import Principal
    from pallas_gateway.mcp.surface import ClientRequest, ListKind
    from pallas_gateway.servers.management.context import Context
    from pallas_gateway.servers.management.tools import Tool

type Json = dict[str, Any]

OWNER = "management"
"""Of the topics of its lists."""
LISTS: frozenset[ListKind] = frozenset(("tools", "resources"))
MOST_AUDITED = 20
"""Agents in one line of the audit."""
LONGEST_NAME = 300
"""Characters that are looked at of what should be a name."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
"""Of a tool or an agent, or an agent's uid."""
INSTRUCTIONS = (
    "Manages the agents of a Pallas deployment. `agents_list` tells which there are, `ask_agent` asks one; "
    "resource://agents/list and resource://agents/{agent_id}/state can be subscribed to."
)


class ManagementSurface:
    """What one principal sees. Costs nothing to make."""

    def __init__(self, context: Context, principal: Principal) -> None:
        self._context = context
        self._principal = principal

    @property
    def info(self) -> Json:
        """`serverInfo`."""
        deployment = self._context.directory.supervisor.get("deployment")
        title = f"Pallas: {deployment}" if deployment else "Pallas"
        return {"name": "pallas", "title": title, "version": __version__}

    @property
    def instructions(self) -> str | None:
        """For the client's model."""
        return INSTRUCTIONS

    @property
    def lists(self) -> frozenset[ListKind]:
        """The lists that there are."""
        return LISTS

    @property
    def completes(self) -> bool:
        """Names of agents and of their servers."""
        return True

    async def tools(self) -> list[Json]:
        """Those that the principal may use with some agent."""
        return [tool.document() for tool in TOOLS if self._may_use(tool)]

    async def prompts(self) -> list[Json]:
        """None."""
        return []

    async def resources(self) -> list[Json]:
        """Those that are not of one agent; raises where the principal may view no agent."""
        self._require_view()
        return [each.document() for each in RESOURCES]

    async def templates(self) -> list[Json]:
        """Likewise."""
        self._require_view()
        return [each.document() for each in TEMPLATES]

    async def call_tool(self, name: str, arguments: Mapping[str, Any], request: ClientRequest) -> Json:
        """The result of a call; a failure that the client's model can mend is a result, too."""
        tool = BY_NAME.get(name)
        if tool is None or self._principal.role != "human":
            raise McpError(INVALID_PARAMS, f"there is no tool {name[:100]!r}", {"type": "not_found"})
        if not self._may_use(tool):
            raise InsufficientScopeError(tool.permission)
        try:
            tool.schema.check(arguments)
            return _result(await tool.handler(self._call(request), arguments))
        except ToolError as error:
            return _failure(error)

    async def header_schema(self, name: str) -> Json | None:
        """No argument is mirrored in a header."""
        return None

    async def get_prompt(self, name: str, arguments: Mapping[str, str], request: ClientRequest) -> Json:
        """There is none."""
        raise McpError(INVALID_PARAMS, f"there is no prompt {name[:100]!r}", {"type": "not_found"})

    async def read(self, uri: str, request: ClientRequest) -> Json:
        """The content of a resource, as JSON."""
        found = find(uri)
        if found is None:
            raise McpError(INVALID_PARAMS, "there is no such resource", {"uri": uri[:500]})
        self._require_view()
        content = await found.resource.read(self._call(request), found.variables)
        text = json.dumps(content, ensure_ascii=False)
        return {"contents": [{"uri": uri, "mimeType": JSON, "text": text}]}

    async def complete(self, ref: Json, argument: Json, request: ClientRequest) -> Json:
        """Names that begin so, of what the principal may view."""
        return await completion.complete(self._call(request), ref, argument)

    async def ready(self) -> None:
        """It always is."""

    def may_subscribe(self, uri: str) -> bool:
        """Whether the principal may hear of the resource."""
        found = find(uri)
        return found is not None and found.may_read(self._principal, self._context.directory)

    def topics(self, uri: str) -> tuple[Topic, ...]:
        """What changes when the resource does."""
        found = find(uri)
        if found is None:
            return (Topic(uri, OWNER),)
        return found.topics(self._principal, self._context.directory)

    def list_topic(self, kind: ListKind) -> Topic:
        """What changes when the list does."""
        return Topic(kind, OWNER)

    def audited(self, name: str, arguments: Mapping[str, Any]) -> str:
        """The tool, and which agent: `agents_delete agent/jarvis`; with those that `cascade` stops as well."""
        tool = BY_NAME.get(name)
        if tool is None:
            return _plain(name)
        said = next((arguments[each] for each in tool.named_by if arguments.get(each)), None)
        if not isinstance(said, str):
            return name
        directory = self._context.directory
        agent = parse_agent_uri(said)[1]
        record = directory.agent(agent)
        names = [agent if record is None else record.name]
        if record is not None and name == "agents_stop" and arguments.get("cascade"):
            names += dependents(directory, record.name)
        return f"{name} {', '.join(f'agent/{_plain(each)}' for each in names[:MOST_AUDITED])}"

    def _may_use(self, tool: Tool) -> bool:
        principal = self._principal
        if principal.role != "human":
            return False
        if tool.verb in ("view", "run"):
            return may_some(principal, tool.verb, "agents")
        return may_some_of(principal, tool.verb, "agent")

    def _require_view(self) -> None:
        if self._principal.role != "human" or not may_some(self._principal, "view", "agents"):
            raise InsufficientScopeError(Permission("view", "agents"))

    def _call(self, request: ClientRequest) -> Call:
        return Call(context=self._context, principal=self._principal, request=request)


def _plain(name: str) -> str:
    """A name as it is, and what is none in quotes: the audit must not tell of another agent than the one meant."""
    # Keys are taken out before it is cut: half of one would not be known as one.
    return name if _NAME.fullmatch(name) else quoted(redact(name[:LONGEST_NAME], KEY_SHAPES), 100)


def _result(content: Json) -> Json:
    text = json.dumps(content, ensure_ascii=False)
    return {"content": [{"type": "text", "text": text}], "structuredContent": content, "isError": False}


def _failure(error: ToolError) -> Json:
    said: Json = {"type": error.type, "message": str(error)}
    if error.field is not None:
        said["field"] = error.field
    if error.details:
        said["details"] = list(error.details)
    text = without_tokens(json.dumps({"status": "error", "error": said}, ensure_ascii=False))
    content = json.loads(text)
    return {
        "content": [{"type": "text", "text": text}],
        "structuredContent": content,
        "isError": True,
    }
