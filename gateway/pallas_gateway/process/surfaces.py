"""Which server of MCP is where, for whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pallas_gateway.http.places import NoSuchPlaceError
from pallas_gateway.servers.management.surface import ManagementSurface

if TYPE_CHECKING:
    from pallas_gateway.http.places import Place
    from pallas_gateway.identity.principal import Principal
    from pallas_gateway.mcp.surface import Surface
    from pallas_gateway.servers.management.context import Context


class AllSurfaces:
    """The servers of MCP."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def at(self, place: Place, principal: Principal) -> Surface:
        """The server there, as the principal sees it.

        Raises:
            NoSuchPlaceError: there is none for it.
        """
        if place.kind == "role" and principal.role == "human":
            return ManagementSurface(self._context, principal)
        raise NoSuchPlaceError("there is no such server")
