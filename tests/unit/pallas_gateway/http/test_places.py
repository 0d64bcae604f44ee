"""Which paths are servers of MCP."""

from __future__ import annotations

import pytest

from pallas_gateway.http.places import Place, place_of


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/mcp", Place("role")),
        ("/mcp/", Place("role")),
        ("/mcp/agents/jarvis", Place("agent", "jarvis")),
        ("/mcp/agents/jarvis/", Place("agent", "jarvis")),
        ("/mcp/agents/jarvis/mcp", Place("agent", "jarvis")),
        ("/mcp/agents/mcp", Place("agent", "mcp")),
        ("/mcp/projects/p/mcp/", Place("project", "p")),
        ("/mcp/mcp", None),
        ("/mcp/agents", None),
        ("/mcp/agents/", None),
        ("/mcp/agents/../mcp", None),
        ("/mcp/agents/jarvis/mcp/mcp", None),
        ("/mcp/agents/jarvis/tools", None),
        ("/mcp/servers/x", None),
    ],
)
def test_a_path_stands_for_a_place(path: str, place: Place | None) -> None:
    assert place_of(path) == place
