"""Which of an agent's servers are agents of the same deployment.

Pure. Knows addresses; must not talk to a server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pallas_common.http.hosts import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from pallas_common.protocol.agent.sibling import Sibling
    from pallas_worker.downstreams.facts import Downstream

PATH = "/mcp"


def siblings_among(
    downstreams: Iterable[Downstream], siblings: Iterable[Sibling], hosts: Collection[str]
) -> Mapping[str, Sibling]:
    """The server's name → the agent that it is.

    Args:
        hosts: names and addresses of this machine's, besides the loopback's.
    """
    by_port = {sibling.port: sibling for sibling in siblings}
    if not by_port:
        return {}
    here = {*LOOPBACK, *(host.lower().strip("[]") for host in hosts)}
    found = {}
    for server in downstreams:
        if server.transport != "http" or (port := _port(server.url or "", here)) not in by_port:
            continue
        found[server.name] = by_port[port]
    return found


def _port(url: str, here: Collection[str]) -> int | None:
    """The port of this machine that is asked for MCP; None for any other address."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme != "http" or (parts.hostname or "") not in here or parts.path.rstrip("/") != PATH:
        return None
    return port
