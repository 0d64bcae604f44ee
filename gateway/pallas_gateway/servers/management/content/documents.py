"""Agents as documents for clients, in the words of the resources that they read. Pure.

The states `idle`, `running` and `suspended` are made from Pallas' own by `STATES`; docs/gateway.md has the same table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from pallas_gateway.directory.server_states import server_state

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pallas_gateway.directory.records import AgentRecord

type Json = dict[str, Any]

STATES = {
    "idle": "idle",
    "starting": "running",
    "ready": "running",
    "stopping": "running",
    "killing": "running",
    "stopped": "suspended",
    "waiting": "suspended",
    "backoff": "suspended",
    "failed": "suspended",
}
"""Pallas' state → what clients are told. `idle`: no process, and the next call starts one; `running`: there is a
process; `suspended`: there is none, and a call would fail or wait."""

URI = "agentlet://"


def state_word(record: AgentRecord) -> str:
    """`idle`, `running` or `suspended`."""
    return STATES.get(record.state, "suspended")


def agent_record(record: AgentRecord) -> Json:
    """One agent in a list."""
    return {
        "id": record.uid or record.name,
        "name": record.name,
        "uid": record.uid,
        "uri": agent_uri(record),
        "title": record.title,
        "description": record.description,
        "state": state_word(record),
        "timestamp": record.since,
        "status": record.state,
        "health": record.health,
        "message": record.message,
        "model": record.model,
        "project": record.project,
        "owner": record.owner,
        "source": record.source,
        "start": record.start,
        "depends_on": list(record.depends_on),
        "restarts": record.restarts,
        "generation": record.generation,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "version": record.version,
    }


def agent_info(record: AgentRecord, resource: Mapping[str, Any]) -> Json:
    """What an agent is declared to be.

    Args:
        resource: its document, as the control API tells it.
    """
    metadata = resource.get("metadata") or {}
    return {
        **agent_record(record),
        "url": record.url,
        "resource_version": metadata.get("resourceVersion"),
        "output_schema": record.output_schema,
        "spec": resource.get("spec") or {},
    }


def agent_state(record: AgentRecord) -> Json:
    """How an agent is."""
    return {
        "agent": record.name,
        "state": state_word(record),
        "timestamp": record.since,
        "status": record.state,
        "health": record.health,
        "message": record.message,
        "generation": record.generation,
        "restarts": record.restarts,
    }


def agent_snapshot(
    info: Json,
    state: Json,
    description: Mapping[str, Any],
    runs: list[Json],
    composed: Mapping[str, Json],
) -> Json:
    """All of an agent at once.

    Args:
        description: the document of `GET /v1/agents/<name>`.
        composed: how the gateway's own connections to its servers are, by their names.
        runs: the reader's own turns with it.
    """
    served = description.get("served") or {}
    return {
        "agent": info,
        "state": state,
        "model": served.get("model"),
        "parts": served.get("parts") or [],
        "mcp": [server_document(each, composed) for each in served.get("servers") or []],
        "depends_on": description.get("depends_on") or [],
        "process": description.get("process"),
        "runs": runs,
    }


def server_document(server: Mapping[str, Any], composed: Mapping[str, Json]) -> Json:
    """How one of an agent's MCP servers is: `initializing`, `running` or `failed`."""
    found = server_state(composed.get(server.get("name") or ""), server.get("health"))
    return {
        "server": server.get("name"),
        "state": found.state,
        "timestamp": found.since,
        "transport": server.get("transport"),
        "target": server.get("target"),
        "error": found.error,
        "incomplete": found.incomplete,
    }


def agent_uri(record: AgentRecord) -> str:
    """`agentlet://user/ada/jarvis`, or `agentlet://jarvis` of one that belongs to nobody."""
    if record.owner is None:
        return f"{URI}{record.name}"
    return f"{URI}user/{quote(record.owner, safe='')}/{record.name}"


def parse_agent_uri(text: str) -> tuple[str | None, str]:
    """Owner, if it is said, and name or uid: of an `agentlet://…`, or of what is one of the latter."""
    path = text.removeprefix(URI)
    if path != text and path.startswith("user/") and path.count("/") == 2:
        _, owner, name = path.split("/")
        return unquote(owner), unquote(name)
    return None, unquote(path) if path != text else text


def agentlet(record: AgentRecord, resource: Mapping[str, Any]) -> Json:
    """An agent as a schema: what it is told, what it answers, which tools it has."""
    spec = resource.get("spec") or {}
    return {
        "fully_qualified_name": record.name,
        "uri": agent_uri(record),
        "title": record.title,
        "description": spec.get("systemPrompt") or record.description,
        "short_description": record.description,
        "version": record.version,
        "model": record.model,
        "output_schema": record.output_schema,
        "servers": spec.get("servers") or [],
        "tools": spec.get("tools"),
        "owner": record.owner,
        "created_at": record.created_at,
    }


def agentlet_entry(record: AgentRecord) -> Json:
    """The same in a list, without what only its document says."""
    return {
        "fully_qualified_name": record.name,
        "uri": agent_uri(record),
        "title": record.title,
        "description": record.description,
        "version": record.version,
        "model": record.model,
        "output_schema": record.output_schema,
        "owner": record.owner,
        "created_at": record.created_at,
    }
