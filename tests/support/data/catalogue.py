"""A deployment for the tests of the catalogue, its entries, and moments."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

from pallas_common.protocol.agent.source import AgentSource
from pallas_registry.catalogue.entries import server_entry
from pallas_registry.deployment.model import Agent, Deployment

NOON = dt.datetime(2026, 3, 12, 12, tzinfo=dt.UTC)
SECOND = dt.timedelta(seconds=1)


def deployment(*names: str, **fields: Any) -> Deployment:
    agents = {
        name: Agent(
            name=name,
            module=AgentSource("module", "m"),
            port=8201 + index,
            title=name.title(),
            description=f"About {name}",
        )
        for index, name in enumerate(names)
    }
    values: dict[str, Any] = {
        "name": "demo",
        "version": "1.0.0",
        "host": "my-host.example.com",
        "namespace": "com.example.project",
        "bind": "0.0.0.0",
        "path": Path("/agents.yaml"),
    }
    return Deployment(**{**values, **fields}, agents=agents)


def entries(*names: str, **fields: Any) -> list[dict[str, Any]]:
    """Entries of agents with these names."""
    whole = deployment(*names, **fields)
    return [server_entry(whole, agent, None, None, NOON) for agent in whole.agents.values()]
