"""What can change, by name: resources of MCP, and its lists. Pure.

A URI alone does not do: the same one may stand for another thing of another tenant or agent.
"""

from __future__ import annotations

from typing import NamedTuple

from pallas_gateway.identity.principal import TENANT


class Topic(NamedTuple):
    """One thing that changes."""

    key: str
    """The URI of a resource that is the same for all; else what it is and whose: `tools agent/jarvis`."""
    owner: str = ""
    """Whose thing it is: an agent's name, a surface's, a principal's subject; empty for what is the same for all who
    may see it."""
    tenant: str = TENANT
