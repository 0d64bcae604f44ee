"""What an agent shows to servers of its own deployment: its token to the gateway, the siblings' key to other agents.

Knows fast-agent's public server settings and the URLs of both; talks to nobody. Neither is for anybody else: they are
in no environment, in no argument and in no file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pallas_common.protocol.keys import KEY_HEADER, is_mcp_at

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from fast_agent.mcp_server_registry import ServerRegistry

    from pallas_common.protocol.spec import WorkerSpec


TOKEN_HEADER = "Authorization"  # noqa: S105 - the name of a header
"""Shows the agent's token to the gateway."""


class Credential(NamedTuple):
    """A header, and for whom it is."""

    name: str
    value: str
    urls: Collection[str]
    """Where it is shown, each without a path; there, to MCP alone."""

    def added_to(self, headers: Mapping[str, str] | None) -> dict[str, str]:
        """The headers with this one; one of the same name that is already there wins."""
        found = dict(headers or {})
        if any(name.lower() == self.name.lower() for name in found):
            return found
        return found | {self.name: self.value}


def credentials_of(spec: WorkerSpec) -> tuple[Credential, ...]:
    """All that the worker was passed."""
    found = []
    if spec.token is not None:
        found.append(Credential(TOKEN_HEADER, f"Bearer {spec.token}", spec.gateway_urls))
    if spec.siblings_key is not None:
        found.append(Credential(KEY_HEADER, spec.siblings_key, spec.sibling_urls))
    return tuple(found)


def show_credentials(
    registry: ServerRegistry | None, credentials: Iterable[Credential]
) -> dict[str, frozenset[str]]:
    """Have connections to those servers, and probes of them, show what is for them.

    Returns:
        Header → the servers that it is for.

    Args:
        registry: the settings of all servers; None where there are none.
    """
    shown: dict[str, frozenset[str]] = {}
    if registry is None:
        return shown
    for credential in credentials:
        servers = {
            name: settings
            for name, settings in registry.registry.items()
            if settings.transport in ("http", "sse")
            and settings.url
            and is_mcp_at(settings.url, credential.urls)
        }
        for settings in servers.values():
            settings.headers = credential.added_to(settings.headers)
        shown[credential.name] = frozenset(servers)
    return shown
