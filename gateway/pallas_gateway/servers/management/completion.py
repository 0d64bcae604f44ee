"""Completion of the variables of resource templates: names of agents, and of their servers, that one may view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pallas_control.errors import ControlError
from pallas_gateway.access.predicate import may_see_agent
from pallas_gateway.mcp.errors import INVALID_PARAMS
from pallas_gateway.mcp.surface import McpError
from pallas_gateway.servers.management.resources import TEMPLATES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pallas_gateway.servers.management.context import Call

type Json = dict[str, Any]

MOST = 100
"""Values of an answer (MCP, completion)."""

COMPLETIONS = {
    "resource://agents/{agent_id}/info": ("agent_id",),
    "resource://agents/{agent_id}/state": ("agent_id",),
    "resource://agents/{agent_id}/snapshot": ("agent_id",),
    "resource://agents/{agent_id}/ui/state": ("agent_id",),
    "resource://compositor_meta/state/{server}{?agent}": ("server", "agent"),
    "agentlet://{uri}": ("uri",),
}
"""Template → the variables that can be completed."""

_KNOWN = {each.uri for each in TEMPLATES}


async def complete(call: Call, ref: Json, argument: Json) -> Json:
    """The answer to `completion/complete`.

    Raises:
        McpError: there is no such template.
    """
    uri = ref.get("uri")
    if ref.get("type") != "ref/resource" or not isinstance(uri, str) or uri not in _KNOWN:
        raise McpError(
            INVALID_PARAMS, "there is nothing to complete: name a resource template", {"field": "ref"}
        )
    name, value = argument.get("name"), argument.get("value")
    if not isinstance(name, str) or not isinstance(value, str):
        raise McpError(INVALID_PARAMS, "`argument` has the texts `name` and `value`", {"field": "argument"})
    if name not in COMPLETIONS.get(uri, ()):
        return _answer([])
    if name == "server":
        return _answer(_beginning(value, await _servers(call)))
    return _answer(_beginning(value, (each.name for each in call.visible_agents())))


async def _servers(call: Call) -> list[str]:
    """The servers of the agent that the client has chosen already, if that is so."""
    context = call.request.params.get("context")
    chosen = context.get("arguments") if isinstance(context, dict) else None
    said = chosen.get("agent") if isinstance(chosen, dict) else None
    record = call.directory.agent(said) if isinstance(said, str) else None
    if record is None or not may_see_agent(call.principal, record.name):
        return []
    try:
        described = await call.context.control.get(f"/v1/agents/{quote(record.name, safe='')}")
    except ControlError:
        return []
    served = described.get("served") or {}
    return [each["name"] for each in served.get("servers") or ()]


def _beginning(value: str, names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if name.lower().startswith(value.lower()))


def _answer(values: list[str]) -> Json:
    return {"completion": {"values": values[:MOST], "total": len(values), "hasMore": len(values) > MOST}}
