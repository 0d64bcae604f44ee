"""Token and key go to whom they are for and to nobody else, and come behind what a server's settings say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fast_agent.config import MCPServerSettings
from fast_agent.mcp_server_registry import ServerRegistry

from pallas_worker.downstreams.credentials import Credential, credentials_of, show_credentials
from pallas_worker.downstreams.settings import downstreams_of
from pallas_worker.process.zygote.warm_up import SPEC

URLS = ("https://agents.example.com", "http://localhost:24199")


SIBLINGS = ("http://127.0.0.1:24201", "http://localhost:24201")


def headers(token: str | None = "its-token", **settings: Any) -> dict[str, str]:
    registry = ServerRegistry()
    registry.register_central("one", MCPServerSettings(**settings))
    passed = replace(SPEC, token=token, gateway_urls=URLS, siblings_key="the-key", sibling_urls=SIBLINGS)
    show_credentials(registry, credentials_of(passed))
    if settings.get("command"):
        return dict(registry.registry["one"].headers or {})
    (probed,) = downstreams_of(["one"], registry.registry, frozenset())
    assert dict(probed.headers) == (registry.registry["one"].headers or {}), "probes show what calls show"
    return dict(probed.headers)


@pytest.mark.parametrize(
    "url",
    [
        "https://agents.example.com/mcp",
        "https://AGENTS.example.com:443/mcp/agents/x",
        "http://localhost:24199/mcp",
    ],
)
def test_connections_to_the_gateway_show_it(url: str) -> None:
    assert headers(transport="http", url=url) == {"Authorization": "Bearer its-token"}


@pytest.mark.parametrize(
    "url",
    [
        "http://agents.example.com/mcp",
        "https://agents.example.com:8443/mcp",
        "https://agents.example.com.evil.example/mcp",
        "https://agents.example.com@evil.example/mcp",
        "https://evil.example/mcp?https://agents.example.com/mcp",
        "https://agents.example.com/other",
        "https://agents.example.com/mcp/../other",
        "https://agents.example.com/mcp/%2e%2e/other",
        "https://agents.example.com/mcpx",
        "http://localhost:24198/mcp",
    ],
)
def test_nobody_else_gets_it(url: str) -> None:
    assert headers(transport="http", url=url) == {}


def test_what_a_server_says_itself_stays() -> None:
    own = {"authorization": "Bearer mine"}
    assert headers(transport="http", url=f"{URLS[0]}/mcp", headers=own) == own
    assert headers(transport="http", url=f"{URLS[0]}/mcp", headers={"x": "y"})["x"] == "y"


def test_without_a_gateway_nothing_is_shown() -> None:
    assert headers(token=None, transport="http", url=f"{URLS[0]}/mcp") == {}
    assert headers(transport="stdio", command="x") == {}
    show_credentials(None, [Credential("Authorization", "Bearer its-token", URLS)])


def test_connections_to_other_agents_show_the_siblings_key_alone() -> None:
    assert headers(transport="http", url="http://localhost:24201/mcp") == {"Pallas-Key": "the-key"}
    assert headers(transport="sse", url="http://127.0.0.1:24201/mcp/") == {"Pallas-Key": "the-key"}
    own = {"pallas-key": "another"}
    assert headers(transport="http", url="http://localhost:24201/mcp", headers=own) == own


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:24202/mcp",
        "http://localhost:24201/other",
        "https://localhost:24201/mcp",
        "http://127.0.0.2:24201/mcp",
        "http://[::1]:24201/mcp",
        "http://localhost:24201@evil.example/mcp",
    ],
)
def test_nobody_else_gets_the_key(url: str) -> None:
    assert headers(transport="http", url=url) == {}
