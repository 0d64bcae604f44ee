"""Downstream servers as facts and as settings of one call; where an inbound bearer goes."""

from __future__ import annotations

import asyncio

import pytest
from fast_agent.config import MCPServerAuthSettings, MCPServerSettings, MCPSettings
from fast_agent.mcp.auth.context import request_bearer_token
from mcp_types import Implementation

from pallas_worker.downstreams.bearer import inbound_bearer, offered_to_llm, with_bearer
from pallas_worker.downstreams.facts import Downstream
from pallas_worker.downstreams.settings import (
    downstreams_of,
    forwarding_servers,
    give_bearer,
    opted_in,
    registry_for_call,
    unset_variables,
)

CLIENT = Implementation(name="pallas", version="1")
MCP = MCPSettings.model_validate(
    {
        "servers": {
            "open": {"transport": "http", "url": "http://a/mcp"},
            "opted": {"transport": "http", "url": "http://b/mcp", "forward_inbound_auth": True},
            "explicit": {
                "url": "http://c/mcp",
                "forward_inbound_auth": True,
                "headers": {"authorization": "Bearer own"},
            },
            "local": {"command": "tool", "args": ["-x"], "env": {"A": "b"}},
            "not_true": {"url": "http://d/mcp", "forward_inbound_auth": "yes"},
            "short": {"target": "http://e/mcp", "forward_inbound_auth": True},
        }
    }
)
FORWARDING = forwarding_servers(MCP)


def headers(name: str, bearer: str | None) -> dict[str, str] | None:
    """The headers that a call with this bearer sends to the server."""
    registry = registry_for_call(MCP.servers, CLIENT)
    if bearer is not None:
        give_bearer(registry, MCP.servers, opted_in(MCP.servers, FORWARDING), bearer, CLIENT)
    settings = registry.get_server_config(name)
    assert settings is not None
    return settings.headers


def test_only_true_opts_in() -> None:
    assert forwarding_servers(MCP) == {"opted", "explicit", "short"}
    assert forwarding_servers(None) == frozenset()


def test_a_bearer_goes_to_opted_in_servers_only() -> None:
    assert headers("opted", "t1") == {"Authorization": "Bearer t1"}
    assert headers("short", "t1") == {"Authorization": "Bearer t1"}
    assert headers("open", "t1") is None
    assert headers("not_true", "t1") is None
    assert headers("opted", None) is None


def test_an_explicit_header_wins() -> None:
    assert headers("explicit", "t1") == {"authorization": "Bearer own"}


def test_the_settings_of_one_call_are_its_own() -> None:
    headers("opted", "t1")
    assert MCP.servers["opted"].headers is None
    assert headers("opted", "t2") == {"Authorization": "Bearer t2"}


def test_no_browser_and_no_terminal() -> None:
    asking = MCPServerSettings(url="http://a/mcp", auth=MCPServerAuthSettings(oauth=True))
    settings = registry_for_call({"a": asking}, CLIENT).get_server_config("a")
    assert settings is not None
    assert settings.auth is not None
    assert not settings.auth.oauth
    assert settings.elicitation is not None
    assert settings.elicitation.mode == "none"
    assert settings.implementation == CLIENT


def test_the_facts_for_the_probes() -> None:
    found = downstreams_of(["local", "opted", "local", "unknown"], MCP.servers, FORWARDING)
    assert found == (
        Downstream(name="local", transport="stdio", command="tool", args=("-x",), env={"A": "b"}),
        Downstream(name="opted", transport="http", url="http://b/mcp", forward_inbound_auth=True),
    )


def test_unset_variables_are_found() -> None:
    headers = {"Authorization": "Bearer ${ARGOS_TOKEN}", "X-Key": "${A}${B}", "X-Set": "value"}
    server = Downstream(name="a", transport="http", url="http://a/mcp", headers=headers)
    assert unset_variables(server) == [("Authorization", "ARGOS_TOKEN"), ("X-Key", "A"), ("X-Key", "B")]


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer abc", "abc"),
        ("bearer  abc ", "abc"),
        ("Basic abc", None),
        ("Bearer", None),
        ("Bearer ", None),
        ("", None),
    ],
)
def test_the_inbound_bearer(header: str, token: str | None) -> None:
    assert inbound_bearer({"authorization": header}) == token
    assert inbound_bearer({}) is None


def test_other_headers_are_kept() -> None:
    assert with_bearer({"X": "y"}, "t") == {"X": "y", "Authorization": "Bearer t"}


def test_the_llm_sees_the_token_of_its_own_call() -> None:
    async def call(token: str | None) -> str | None:
        with offered_to_llm(token):
            await asyncio.sleep(0)
            return await asyncio.create_task(seen())

    async def seen() -> str | None:
        return request_bearer_token.get()

    async def run() -> list[str | None]:
        return await asyncio.gather(*(call(token) for token in ("a", None, "b")))

    assert asyncio.run(run()) == ["a", None, "b"]
    assert request_bearer_token.get() is None
