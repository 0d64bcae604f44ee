"""MCP clients of others at the gateway, as docs/gateway-clients.md says: the SDK, FastMCP, the Inspector, fast-agent.

Knows how each of them is called; nothing of what is called.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import fastmcp
import httpx2
import yaml
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from real.clients.programs import PEERS, Programs, npm_programs
from support.documents.blocks import blocks_of
from support.repository import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from support.clients import Era

    type Caller = Callable[[Door, Era, Sequence[Step], Path], list[str]]
    """Calls tools one after another in a folder that is its own; the texts of the results."""

PAGE = ROOT / "docs" / "gateway-clients.md"

type Step = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Door:
    """A gateway that runs, and a token with which everything may be done."""

    port: int
    token: str
    path: str = "/mcp"

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}{self.path}"

    @property
    def variables(self) -> dict[str, str]:
        return {"PALLAS_CLIENT_TOKEN": self.token}

    def at(self, path: str) -> Door:
        """The same gateway and token, at another path."""
        return replace(self, path=path)

    def on_page(self, language: str, word: str) -> str:
        """The one block of the page with this word in it, for this deployment."""
        (text,) = (
            block.text for block in blocks_of(PAGE) if block.language == language and word in block.text
        )
        return text.replace("http://localhost:24199/mcp", self.url)


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


CALLERS: tuple[Caller, ...] = (sdk, fast_mcp, inspector, fast_agent)
