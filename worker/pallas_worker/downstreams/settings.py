"""The downstream servers of the served agent: as facts for the probes, and as settings for one call.

Knows fast-agent's public server settings; must not talk to a server. Every call gets settings of its own, so
that a bearer is the property of its request and of nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fast_agent.config import MCPElicitationSettings, MCPServerAuthSettings
from fast_agent.mcp_server_registry import ServerRegistry

from pallas_common.secrets.references import referred
from pallas_worker.downstreams.bearer import with_bearer
from pallas_worker.downstreams.closed import is_closed
from pallas_worker.downstreams.facts import Downstream

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fast_agent.config import MCPServerSettings, MCPSettings
    from mcp_types import Implementation


def forwarding_servers(mcp: MCPSettings | None) -> frozenset[str]:
    """The servers with `forward_inbound_auth: true`.

    The flag is no setting of fast-agent's own: it survives only in the extra fields of the declaration.
    """
    declarations = mcp.server_declarations if mcp is not None else {}
    return frozenset(
        name
        for name, declaration in declarations.items()
        if (declaration.model_extra or {}).get("forward_inbound_auth") is True
    )


def downstreams_of(
    names: Iterable[str], servers: Mapping[str, MCPServerSettings], forwarding: frozenset[str]
) -> tuple[Downstream, ...]:
    """The named servers as facts, each once, without those that the LLM's provider connects to itself."""
    return tuple(
        Downstream(
            name=name,
            transport=settings.transport,
            url=settings.url,
            headers=dict(settings.headers or {}),
            command=settings.command,
            args=tuple(settings.args or ()),
            env=dict(settings.env or {}),
            cwd=settings.cwd,
            forward_inbound_auth=name in forwarding,
            closed=is_closed(settings),
        )
        for name in dict.fromkeys(names)
        if (settings := servers.get(name)) is not None and settings.management == "client"
    )


def unset_variables(downstream: Downstream) -> list[tuple[str, str]]:
    """The headers that name an environment variable which is not set, as (header, variable)."""
    return [
        (header, variable) for header, value in downstream.headers.items() for variable in referred(value)
    ]


def opted_in(servers: Mapping[str, MCPServerSettings], forwarding: frozenset[str]) -> frozenset[str]:
    """The servers whose settings depend on the caller: they opted in, and have no `Authorization` of their own."""
    return frozenset(
        name
        for name, settings in servers.items()
        if name in forwarding and with_bearer(settings.headers, "") != dict(settings.headers or {})
    )


def registry_for_call(servers: Mapping[str, MCPServerSettings], client: Implementation) -> ServerRegistry:
    """A registry that belongs to one call, as yet without its bearer."""
    registry = ServerRegistry()
    for name, settings in servers.items():
        registry.register_central(name, _for_call(settings, None, client))
    return registry


def give_bearer(
    registry: ServerRegistry,
    servers: Mapping[str, MCPServerSettings],
    names: frozenset[str],
    bearer: str,
    client: Implementation,
) -> None:
    """Put the call's bearer into the settings of the servers `names` in its registry, and into no other."""
    for name in names:
        registry.register_central(name, _for_call(servers[name], bearer, client))


def _for_call(settings: MCPServerSettings, token: str | None, client: Implementation) -> MCPServerSettings:
    update: dict[str, Any] = {
        # Without this, the package's metadata is parsed anew for every connection.
        "implementation": settings.implementation or client,
        # A 401 would escalate to a browser, and an elicitation to a terminal: a server process has neither.
        "auth": (settings.auth or MCPServerAuthSettings()).model_copy(update={"oauth": False}),
    }
    if settings.elicitation is None or settings.elicitation.mode == "forms":
        update["elicitation"] = MCPElicitationSettings(mode="none")
    if token is not None:
        update["headers"] = with_bearer(settings.headers, token)
    return settings.model_copy(update=update)
