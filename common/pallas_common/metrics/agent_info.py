"""The two series about an agent that the registry port and the agent's own port both have. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pallas_common.metrics.exposition import Family, encoded, number, sample_prefix

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pallas_common.protocol.reports import Status

INFO = "pallas_agent_info"
INFO_HELP = "1 per configured agent."
HEALTH = "pallas_agent_health_status"
HEALTH_HELP = "Health of the agent: 1 ok, 0.5 degraded, 0 error."
HEALTH_VALUES: Mapping[Status, float] = {"ok": 1.0, "degraded": 0.5, "error": 0.0}


def agent_families(agent: str, port: int | None, status: Status) -> list[Family]:
    """Both, of one agent; where it has no port, the label is empty."""
    info = f"{sample_prefix(INFO, [('agent', agent), ('port', '' if port is None else str(port))])}{number(1.0)}\n"
    health = f"{sample_prefix(HEALTH, [('agent', agent)])}{number(HEALTH_VALUES[status])}\n"
    return [
        Family(INFO, "gauge", INFO_HELP, encoded(info)),
        Family(HEALTH, "gauge", HEALTH_HELP, encoded(health)),
    ]
