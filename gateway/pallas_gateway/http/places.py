"""The paths of MCP, and the metadata about each that clients ask for (RFC 9728). Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from pallas_gateway.identity.grants import KINDS, VERBS

if TYPE_CHECKING:
    from pallas_common.protocol.gateway import GatewaySettings
    from pallas_gateway.identity.principal import Principal
    from pallas_gateway.mcp.surface import Surface

METADATA = "/.well-known/oauth-protected-resource"

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
"""What stands for something in a path: a name, or a uid; never `.` or `..`."""


class Place(NamedTuple):
    """A server of MCP: `/mcp`, an agent's virtual server, or a project's."""

    kind: Literal["role", "agent", "project"]
    """`role`: the token's role says which: the management server, or an agent's compositor."""
    name: str = ""

    @property
    def path(self) -> str:
        """Where it is."""
        return "/mcp" if self.kind == "role" else f"/mcp/{self.kind}s/{self.name}"


class NoSuchPlaceError(Exception):
    """There is no such server, or the principal may not know of it: 404."""


class Surfaces(Protocol):
    """The servers of MCP."""

    def at(self, place: Place, principal: Principal) -> Surface:
        """The server there, as the principal sees it.

        Raises:
            NoSuchPlaceError: there is none for it.
            InsufficientScopeError: the principal may see that it is there, and may not use it.
        """


def place_of(path: str) -> Place | None:
    """What a path stands for, with a slash at its end or without; None if it is none of MCP's.

    A named one may end with `/mcp`: fast-agent writes that behind each URL of a server that does not end so.
    """
    match path.removesuffix("/").split("/"):
        case ["", "mcp"]:
            return Place("role")
        case ["", "mcp", "agents", name] | ["", "mcp", "agents", name, "mcp"] if NAME.fullmatch(name):
            return Place("agent", name)
        case ["", "mcp", "projects", name] | ["", "mcp", "projects", name, "mcp"] if NAME.fullmatch(name):
            return Place("project", name)
    return None


def resource_metadata(settings: GatewaySettings, place: Place) -> dict[str, Any]:
    """The metadata of a protected resource (RFC 9728, section 2)."""
    document: dict[str, Any] = {
        "resource": f"{settings.public_url.rstrip('/')}{place.path}",
        "bearer_methods_supported": ["header"],
        "scopes_supported": [f"{verb}:{kind}" for kind in KINDS if kind != "code" for verb in VERBS]
        + ["edit:code"],
        "resource_name": "Pallas",
    }
    if settings.oidc is not None:
        document["authorization_servers"] = [settings.oidc.issuer]
    return document
