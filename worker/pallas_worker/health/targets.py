"""Which probes other workers would make in just the same way, and what those are called. Pure.

Knows what a probe depends on; must not know who makes it. A name tells nothing of an address or a credential.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pallas_common.protocol.notices import target_name

if TYPE_CHECKING:
    from pallas_worker.agent.models.providers import ProviderSettings
    from pallas_worker.downstreams.facts import Downstream


def downstream_target(key: str | None, server: Downstream) -> str | None:
    """The name of a server's probe; None where it is this worker's own affair.

    It is with a command, which is only looked up, and where each caller's bearer is what the server goes by.
    """
    if key is None or server.transport == "stdio" or server.forward_inbound_auth:
        return None
    headers = sorted((name.lower(), value) for name, value in server.headers.items())
    return target_name(key, "downstream", server.transport, server.url, headers)


def provider_target(key: str | None, provider: ProviderSettings | None, model: str | None) -> str | None:
    """The name of a provider's check for a model; None where there is nobody to ask, or no key to ask with."""
    if key is None or provider is None or provider.api_key is None:
        return None
    return target_name(key, "provider", provider.name, provider.base_url, provider.api_key, model)
