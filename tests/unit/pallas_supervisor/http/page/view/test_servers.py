"""How servers and providers are shown."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from pallas_supervisor.http.page.data.facts import DeploymentFacts, Look
from pallas_supervisor.http.page.data.history import together
from pallas_supervisor.http.page.data.samples import Samples
from pallas_supervisor.http.page.view.servers import servers
from support.documents.browser.markup import Read


def test_servers_have_since_latency_and_error() -> None:
    found = Samples()
    found.downstreams["files"] = {"a": False}
    found.downstreams["<search>"] = {"a": True, "b": True}
    found.providers["openai"] = True
    since = datetime(2026, 3, 12, 12, 3, tzinfo=UTC)
    look = Look(up=False, since=since, checked="2026-03-12T12:03:00.000Z", latency=0.0142, error="<HTTP 503>")
    looks = {("server", "files"): look}
    fleet = DeploymentFacts(
        name="x", health="degraded", agents=(), trend=together(()), samples=found, looks=looks
    )
    read = Read(str(servers(fleet)))
    assert "files MCP server down for a since 12:03:00 UTC · 14 ms · <HTTP 503>" in " ".join(
        read.said.split()
    )
    assert "<search> MCP server up for 2 agents" in read.said
    assert [attributes["datetime"] for name, attributes in read.tags if name == "time"] == [
        "2026-03-12T12:03:00Z"
    ]
    looks["server", "files"] = replace(look, up=True)
    assert "since" not in Read(str(servers(fleet))).said, "what the gauge does not say yet"
