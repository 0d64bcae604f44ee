"""How servers and providers are shown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pallas_supervisor.page.data.facts import FleetFacts, looks_of
from pallas_supervisor.page.data.history import (
    together,
)
from pallas_supervisor.page.data.samples import Samples
from pallas_supervisor.page.view.servers import servers
from support.browser.markup import Read


def health(*servers: dict[str, Any]) -> dict[str, Any]:
    """A health document of as many agents, each with one server."""
    return {"agents": {f"a{n}": {"downstreams": [one], "provider": None} for n, one in enumerate(servers)}}


def server(up: bool, minute: int, error: str | None = None) -> dict[str, Any]:
    moment = f"2026-03-12T12:{minute:02d}:00.000Z"
    return {"name": "files", "up": up, "since": moment, "checked": moment, "latency": 0.0142, "error": error}


def test_servers_have_since_latency_and_error() -> None:
    found = Samples()
    found.downstreams["files"] = {"a": False}
    found.downstreams["<search>"] = {"a": True, "b": True}
    found.providers["openai"] = True
    looks = looks_of(health(server(False, 3, "<HTTP 503>")))
    fleet = FleetFacts(name="x", health="degraded", agents=(), trend=together(()), samples=found, looks=looks)
    read = Read(str(servers(fleet)))
    assert "files MCP server down for a since 12:03:00 UTC · 14 ms · <HTTP 503>" in " ".join(
        read.said.split()
    )
    assert "<search> MCP server up for 2 agents" in read.said
    assert [attributes["datetime"] for name, attributes in read.tags if name == "time"] == [
        "2026-03-12T12:03:00Z"
    ]
    looks["server", "files"] = replace(looks["server", "files"], up=True)
    assert "since" not in Read(str(servers(fleet))).said, "what the gauge does not say yet"
