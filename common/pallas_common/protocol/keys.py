"""Keys to the ports of agents that stand behind a gateway: how they are shown, and at which URLs.

Two keys open such a port. The worker's own, new at each start, is for the gateway; who shows it may also override what
the agent's definition says. The siblings' key, new at each start of the supervisor, is for agents that call each other;
it admits and does nothing else. Both are passed on in memory: neither is in an environment, an argument or a file.

Pure. Knows addresses and URLs; nothing of who answers there.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable

KEY_HEADER = "Pallas-Key"
"""Header of HTTP that shows a key."""


def local_names(bind: str) -> tuple[str, ...]:
    """The names by which what listens at this address is reached on this machine, and nobody else is.

    Args:
        bind: the address; of a loopback one other than the usual, `localhost` may lead to somebody else.
    """
    address = ipaddress.ip_address(bind)
    usual = "127.0.0.1" if address.version == 4 else "::1"
    own = () if address.is_unspecified else (bind,)
    more = ("localhost", usual) if address.is_unspecified or bind == usual else ()
    return tuple(dict.fromkeys((*own, *more)))


def http_origins(names: Iterable[str], ports: Iterable[int]) -> tuple[str, ...]:
    """The URLs of these names and ports, each without a path."""
    hosts = [f"[{name}]" if ":" in name else name for name in names]
    return tuple(dict.fromkeys(f"http://{host}:{port}" for port in ports for host in hosts))


def is_mcp_at(url: str, urls: Iterable[str]) -> bool:
    """Whether `url` is one of MCP where `urls` lead to; nothing else there gets our tokens and keys.

    Other paths of the same host may be somebody else's behind the same proxy.
    """
    try:
        path = urlsplit(url).path
        ours = (path == "/mcp" or path.startswith("/mcp/")) and "/.." not in path and "%" not in path
        return ours and _origin(url) in set(map(_origin, urls))
    except ValueError:
        return False


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    return scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(scheme)
