"""The MCP servers of a definition, as fast-agent's settings.

Knows definitions and fast-agent's public settings; talks to no server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fast_agent.config import MCPServerSettings, MCPSettings
from fast_agent.mcp.server_declaration import MCPServerDeclaration
from pydantic import ValidationError

from pallas_common.problems import shortened
from pallas_worker.downstreams.closed import close
from pallas_worker.interface.errors import AgentError
from pallas_worker.process.declared.secrets import filled

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pallas_common.protocol.agent.definition import ServerDefinition

FORWARD = "forward_inbound_auth"
"""Our own setting of a server, which fast-agent's do not have."""

FIELDS: Mapping[str, str] = {
    "read_timeout_seconds": "readTimeoutSeconds",
    FORWARD: "forwardInboundAuth",
}
"""Settings that a resource calls otherwise."""

_LONGEST_COMPLAINT = 300


def mcp_settings(
    servers: Iterable[ServerDefinition], secrets: Mapping[str, str], configured: MCPSettings | None
) -> MCPSettings:
    """These servers alone; the rest of what is `configured` for all servers stays.

    Raises:
        AgentError: a server's settings are wrong; says which field of which one.
    """
    settings = (configured or MCPSettings()).model_copy()
    settings.servers = {}
    settings.server_declarations = {}
    for server in servers:
        settings.servers[server.name], settings.server_declarations[server.name] = _server(server, secrets)
    return settings


def _server(
    server: ServerDefinition, secrets: Mapping[str, str]
) -> tuple[MCPServerSettings, MCPServerDeclaration]:
    # Parsed as it is written, so that a complaint shows references and no values.
    said = {name: value for name, value in server.settings.items() if name != FORWARD}
    unknown = next((name for name in said if name not in MCPServerSettings.model_fields), None)
    if unknown is not None:
        raise _refused(server.name, unknown, "fast-agent has no such setting of a server; remove it")
    try:
        settings = MCPServerSettings.model_validate(dict(said))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        field = ".".join(map(str, first["loc"])) or "spec"
        raise _refused(server.name, field, shortened(first["msg"], _LONGEST_COMPLAINT)) from None
    for name in said:
        where = f"server {server.name}: {FIELDS.get(name, name)}"
        setattr(settings, name, _filled(getattr(settings, name), secrets, where))
    if server.closed:
        close(settings)
    declaration = MCPServerDeclaration.model_validate(
        {"name": server.name, FORWARD: server.settings.get(FORWARD) is True}
    )
    return settings, declaration


def _filled(value: Any, secrets: Mapping[str, str], where: str) -> Any:
    """The value with secrets in all of its texts."""
    match value:
        case str():
            return filled(value, secrets, where)
        case list():
            return [_filled(each, secrets, where) for each in value]
        case dict():
            return {name: _filled(each, secrets, f"{where}.{name}") for name, each in value.items()}
        case _:
            return value


def _refused(server: str, field: str, complaint: str) -> AgentError:
    return AgentError(f"server {server}: {FIELDS.get(field, field)}: {complaint}", permanent=True)
