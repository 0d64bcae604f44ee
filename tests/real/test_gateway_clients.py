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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import fastmcp
import httpx2
import pytest
import yaml
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from real.clients.programs import PEERS, Programs, npm_programs
from support.clients import ERAS, Era
from support.documents.blocks import blocks_of
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.gateway.door import await_gateway, operator_token, with_gateway
from support.repository import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

PAGE = ROOT / "docs" / "gateway-clients.md"
LIMITS = {"requests_per_minute": 10_000, "tenant_requests_per_minute": 10_000}

type Step = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Door:
    """A gateway that runs, and a token with which everything may be done."""

    port: int
    token: str

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}/mcp"

    @property
    def variables(self) -> dict[str, str]:
        return {"PALLAS_CLIENT_TOKEN": self.token}

    def on_page(self, language: str, word: str, path: str = "/mcp") -> str:
        """The one block of the page with this word in it, for this deployment."""
        (text,) = (
            block.text for block in blocks_of(PAGE) if block.language == language and word in block.text
        )
        return text.replace("http://localhost:24199/mcp", self.url.removesuffix("/mcp") + path)


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


def sdk(door: Door, era: Era, steps: Sequence[Step], _: Path) -> list[str]:
    async def run() -> list[str]:
        headers = {"Authorization": f"Bearer {door.token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as http,
            Client(streamable_http_client(door.url, http_client=http), mode=era) as client,
        ):
            return [said((await client.call_tool(*step)).model_dump(by_alias=True)) for step in steps]

    return asyncio.run(run())


def fast_mcp(door: Door, era: Era, steps: Sequence[Step], _: Path) -> list[str]:
    async def run() -> list[str]:
        async with fastmcp.Client(door.url, auth=door.token, mode=era) as client:
            return [said((await client.call_tool_mcp(*step)).model_dump(by_alias=True)) for step in steps]

    return asyncio.run(run())


def inspector(door: Door, era: Era, steps: Sequence[Step], directory: Path) -> list[str]:
    """One run for each call."""
    programs = npm_programs(directory)
    listing = door.on_page("bash", "inspector").replace("\\\n", "")
    calling = listing.replace("--method tools/list", "--method tools/call").strip()

    def call(name: str, arguments: Mapping[str, Any]) -> str:
        words = f"--protocol-era {era} --tool-name {name} --tool-args-json '{json.dumps(arguments)}'"
        return said(json.loads(programs.run(f"{calling} {words}", PEERS, more=door.variables)))

    return [call(*step) for step in steps]


FAST_AGENT = """
import asyncio
import json
import sys

from fast_agent import FastAgent

fast = FastAgent("another project", parse_cli_args=False, quiet=True)


@fast.agent(name="caller", model="passthrough", servers=["pallas"])
async def main():
    async with fast.run() as agents:
        print()
        for name, arguments in json.loads(sys.argv[1]):
            said = await agents.caller.send(f"***CALL_TOOL pallas__{name} {json.dumps(arguments)}")
            print(json.dumps(said))


asyncio.run(main())
"""


def fast_agent(door: Door, era: Era, steps: Sequence[Step], directory: Path) -> list[str]:
    settings = yaml.safe_load(door.on_page("yaml", "mcp:"))
    settings["mcp"]["servers"]["pallas"]["protocol_mode"] = era
    (directory / "fastagent.config.yaml").write_text(yaml.safe_dump(settings))
    (directory / "caller.py").write_text(FAST_AGENT)
    command = [sys.executable, "caller.py", json.dumps(steps)]
    printed = Programs(directory).run(command, directory, more=door.variables)
    return [json.loads(line) for line in printed.splitlines()[-len(steps) :]]


def said(result: Mapping[str, Any]) -> str:
    """The text of a result."""
    text = "\n".join(block["text"] for block in result["content"])
    assert not result.get("isError"), text
    return text


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("client", [sdk, fast_mcp, inspector, fast_agent], ids=lambda each: each.__name__)
def test_the_whole_life_of_an_agent(
    door: Door, tmp_path: Path, client: Callable[[Door, Era, Sequence[Step], Path], list[str]], era: Era
) -> None:
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
    server = json.loads(door.on_page("json", "mcp-remote", "/mcp/agents/jarvis"))["mcpServers"]["pallas"]
    environment = {**programs.environment, "PALLAS_AUTHORIZATION": f"Bearer {door.token}"}
    assert server["env"].keys() <= environment.keys()
    bridge = StdioServerParameters(command=server["command"], args=server["args"], env=environment, cwd=PEERS)

    async def ask() -> Any:
        async with Client(bridge) as client:
            return await client.call_tool("chat", {"message": "hello from the bridge"})

    assert "hello from the bridge" in asyncio.run(ask()).content[0].text


@pytest.mark.parametrize("word", ["import httpx2", "from fastmcp"])
def test_the_programs_of_the_page(door: Door, tmp_path: Path, word: str) -> None:
    (tmp_path / "list.py").write_text(door.on_page("python", word, "/mcp/agents/jarvis"))
    printed = Programs(tmp_path).run([sys.executable, "list.py"], tmp_path, more=door.variables)
    assert printed.splitlines()[-1] == "chat"


def test_the_request_of_the_page(door: Door, tmp_path: Path) -> None:
    asked = door.on_page("bash", "curl", "/mcp/agents/jarvis")
    assert '"chat"' in Programs(tmp_path).run(asked, tmp_path, more={**os.environ, **door.variables})
