"""Which server of MCP is where, for whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pallas_gateway.access.predicate import may
from pallas_gateway.http.places import NoSuchPlaceError
from pallas_gateway.identity.grants import Permission
from pallas_gateway.servers.compositor.agent import AgentCompositor
from pallas_gateway.servers.compositor.named import AgentServer, ProjectServer
from pallas_gateway.servers.management.surface import ManagementSurface

if TYPE_CHECKING:
    from pallas_gateway.http.places import Place
    from pallas_gateway.identity.principal import Principal
    from pallas_gateway.mcp.surface import Surface
    from pallas_gateway.servers.compositor.mounts import Mounts
    from pallas_gateway.servers.management.context import Context


class AllSurfaces:
    """The servers of MCP."""

    def __init__(self, context: Context, mounts: Mounts) -> None:
        self._context = context
        self._mounts = mounts

    def at(self, place: Place, principal: Principal) -> Surface:
        """The server there, as the principal sees it.

        Raises:
            NoSuchPlaceError: there is none for it.
        """
        if place.kind == "role" and principal.role == "human":
            return ManagementSurface(self._context, principal)
        directory = self._context.directory
        if place.kind == "role":
            if principal.agent is not None and directory.agent(principal.agent) is not None:
                return AgentCompositor(self._mounts, directory, principal)
        elif place.kind == "agent":
            is_there = place.name in directory.agents
            if is_there and may(principal, Permission("run", "agents", place.name)):
                return AgentServer(self._mounts, directory, principal, place.name)
        elif place.name in directory.projects and may(principal, Permission("view", "projects", place.name)):
            return ProjectServer(self._mounts, directory, principal, place.name)
        raise NoSuchPlaceError(_nothing_at(place))


def _nothing_at(place: Place) -> str:
    """The same whether it is not there, or the token may not know of it."""
    match place.kind:
        case "agent":
            return f"there is no agent {place.name}, or this token may not run it"
        case "project":
            return f"there is no project {place.name}, or this token may not view it"
    return "the agent of this token is not there any more"
