"""Which servers are agents of the deployment that start on demand: by address alone."""

from __future__ import annotations

import pytest

from pallas_common.protocol.agent.sibling import Sibling
from pallas_worker.downstreams.facts import Downstream
from pallas_worker.downstreams.siblings import siblings_among

SIBLING = Sibling(name="asked", port=24300, title="Asked", description="Answers.")
HOSTS = ("localhost", "127.0.0.1", "::1", "agents.example", "[2001:DB8::7]")


def found(url: str, transport: str = "http") -> bool:
    server = Downstream(name="b", transport=transport, url=url)  # type: ignore[arg-type]
    among = siblings_among([server], [SIBLING], HOSTS)
    assert among in ({}, {"b": SIBLING})
    return bool(among)


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:24300/mcp",
        "http://127.0.0.1:24300/mcp/",
        "http://[::1]:24300/mcp",
        "http://AGENTS.example:24300/mcp",
        "http://[2001:db8::7]:24300/mcp",
    ],
)
def test_its_own_addresses(url: str) -> None:
    assert found(url)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://localhost/mcp",
        "http://localhost:24301/mcp",
        "http://other.example:24300/mcp",
        "https://localhost:24300/mcp",
        "http://localhost:24300/sse",
        "http://localhost:port/mcp",
        "http://[localhost:24300/mcp",
    ],
)
def test_all_others_are_asked_as_always(url: str) -> None:
    assert not found(url)


def test_it_is_asked_in_the_way_of_mcp() -> None:
    assert not found("http://localhost:24300/mcp", "sse")
    assert not found("http://localhost:24300/mcp", "stdio")
