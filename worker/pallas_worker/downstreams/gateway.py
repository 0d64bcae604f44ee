"""The agent's own token for the gateway, put into the settings of those servers that are the gateway.

Knows fast-agent's public server settings and the gateway's URLs; talks to nobody. The token is for nobody else: it is
in no environment, in no argument and in no file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pallas_common.protocol.gateway import is_gateway
from pallas_worker.downstreams.bearer import with_bearer

if TYPE_CHECKING:
    from collections.abc import Collection

    from fast_agent.mcp_server_registry import ServerRegistry


def give_token(registry: ServerRegistry | None, token: str | None, urls: Collection[str]) -> frozenset[str]:
    """Have connections to the gateway, and probes of it, show the token; an Authorization of a server's own stays.

    Returns:
        The servers that are the gateway.

    Args:
        registry: the settings of all servers; None where there are none.
        token: None where there is no gateway.
        urls: by which the gateway is reached.
    """
    if registry is None or token is None:
        return frozenset()
    found = set()
    for name, settings in registry.registry.items():
        if settings.transport in ("http", "sse") and settings.url and is_gateway(settings.url, urls):
            settings.headers = with_bearer(settings.headers, token)
            found.add(name)
    return frozenset(found)
