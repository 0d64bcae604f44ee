"""An agent's whole life by MCP alone: clients of others, each its real release, with a human's token at the gateway.

Each makes an agent, lists it, restarts it, asks it and deletes it, in both eras of the protocol. What they are given is
what docs/gateway-clients.md says, with the port and the token of this deployment.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from typing import TYPE_CHECKING, Any

import pytest
from mcp import StdioServerParameters
from mcp.client import Client

from real.clients.mcp_clients import CALLERS, Door
from real.clients.programs import PEERS, Programs, npm_programs
from support.clients import ERAS
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.gateway.door import await_gateway, operator_token, with_gateway

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from real.clients.mcp_clients import Caller
    from support.clients import Era

LIMITS = {"requests_per_minute": 10_000, "tenant_requests_per_minute": 10_000}


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    deployment = with_gateway(make_deployment(tmp_path_factory.mktemp("fleet"), "jarvis"), limits=LIMITS)
    with Fleet(deployment) as fleet:
        await_gateway(fleet)
        fleet.wait("jarvis")
        yield Door(deployment.document["gateway"]["port"], operator_token(fleet))


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return npm_programs(tmp_path_factory.mktemp("home"))


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("client", CALLERS, ids=lambda each: each.__name__)
def test_the_whole_life_of_an_agent(door: Door, tmp_path: Path, client: Caller, era: Era) -> None:
    name = f"made-{client.__name__.replace('_', '-')}-{era}"
    spec = {"description": "Repeats", "model": "passthrough", "systemPrompt": "You repeat."}
    told = client(
        door,
        era,
        [
            ("agents_create", {"name": name, "spec": spec}),
            ("agents_list", {}),
            ("agents_restart", {"name": name}),
            ("ask_agent", {"name": name, "prompt": "hello there"}),
            ("agents_delete", {"name": name}),
            ("agents_list", {}),
        ],
        tmp_path,
    )
    _, listed, _, answered, _, left = told
    assert "jarvis" in listed
    assert name in listed
    assert "hello there" in answered
    assert "jarvis" in left
    assert name not in left


def test_claude_code_shows_its_token(door: Door, programs: Programs, tmp_path: Path) -> None:
    add, listing = door.on_page("bash", "claude mcp").splitlines()
    programs.run(add, tmp_path, more=door.variables)
    assert re.search(
        r"^pallas: \S+/mcp \(HTTP\) - \S+ Connected$", programs.run(listing, tmp_path), re.MULTILINE
    )


def test_the_bridge_of_claude_desktop_shows_its_token(door: Door, programs: Programs) -> None:
    server = json.loads(door.at("/mcp/agents/jarvis").on_page("json", "mcp-remote"))["mcpServers"]["pallas"]
    environment = {**programs.environment, "PALLAS_AUTHORIZATION": f"Bearer {door.token}"}
    assert server["env"].keys() <= environment.keys()
    bridge = StdioServerParameters(command=server["command"], args=server["args"], env=environment, cwd=PEERS)

    async def ask() -> Any:
        async with Client(bridge) as client:
            return await client.call_tool("chat", {"message": "hello from the bridge"})

    assert "hello from the bridge" in asyncio.run(ask()).content[0].text


@pytest.mark.parametrize("word", ["import httpx2", "from fastmcp"])
def test_the_programs_of_the_page(door: Door, tmp_path: Path, word: str) -> None:
    (tmp_path / "list.py").write_text(door.at("/mcp/agents/jarvis").on_page("python", word))
    printed = Programs(tmp_path).run([sys.executable, "list.py"], tmp_path, more=door.variables)
    assert printed.splitlines()[-1] == "chat"


def test_the_request_of_the_page(door: Door, tmp_path: Path) -> None:
    asked = door.at("/mcp/agents/jarvis").on_page("bash", "Mcp-Method")
    assert '"chat"' in Programs(tmp_path).run(asked, tmp_path, more={**os.environ, **door.variables})
