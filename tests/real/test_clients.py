"""The MCP clients that `pallasctl connect` has something to paste for, each its real release, against a real worker.

What is pasted is what the product says: the usual way is `pallasctl connect`'s stdout, the others are read from the
status page. Claude Desktop, Cursor and VS Code cannot be had on a server: of the first, the bridge that its file names
is run; the files of the other two are compared with what their makers publish.
"""

from __future__ import annotations

import asyncio
import contextlib
import html
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import yaml
from mcp import Client, StdioServerParameters

from fakes.llm_stub import Asked, Call, Turn, run_llm_stub
from pallas_registry.catalogue.connections import CLIENTS, Endpoint, connection
from real.clients.programs import MODULES, PEERS, Programs, npm_programs, python_with_sdk_1
from support.clients import send_message
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

AGENT = "my-agent_2"
"""With every kind of character that a name may have."""
RELEASES = [(2, ()), (1, (AGENT,))]
"""Release of an SDK, and the agents that its program is to ask; none for all."""


@dataclass
class Deployed:
    """A running deployment, and what it says to paste."""

    fleet: Fleet

    def printed(self, client: str, *agent: str) -> str:
        """The stdout of `pallasctl connect`."""
        done = self.fleet.ctl("connect", client, *agent)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def on_page(self, client: str, agent: str = "") -> list[str]:
        """What the status page shows for a client of an agent, or of all, the usual way first."""
        page = httpx.get(f"{self.fleet.deployment.registry}/page/connect").text
        entry = f'id="connect-{agent}"' if agent else 'data-key="All agents"'
        of_agent = page.split(entry)[1].split('id="connect-')[0]
        title = connection(client, [Endpoint("a", "http://x/mcp")]).title
        of_client = of_agent.split(f"<summary>{title}</summary>")[1].split("</details>")[0]
        return [html.unescape(text) for text in re.findall("<pre>(.*?)</pre>", of_client, re.DOTALL)]


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    deployment = make_deployment(tmp_path_factory.mktemp("fleet"))
    deployment.add(AGENT, module=f"agents/{AGENT}.py")
    deployment.add("research")
    with Fleet(deployment) as fleet:
        fleet.wait()
        yield Deployed(fleet)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return npm_programs(tmp_path_factory.mktemp("home"))


@pytest.mark.parametrize("client", CLIENTS)
def test_page_and_command_say_the_same(deployed: Deployed, client: str) -> None:
    assert deployed.on_page(client, AGENT)[0] == deployed.printed(client, AGENT).rstrip("\n")


def test_claude_code_is_connected_and_its_model_calls_the_agent(
    deployed: Deployed, programs: Programs, tmp_path: Path
) -> None:
    tool = f"mcp__{AGENT}__send_message"

    def answer(asked: Asked) -> Turn:
        if asked.tool_results:
            return Turn(text=f"it said {asked.tool_results[0]}")
        return Turn(calls=(Call(tool, {"message": "hello from Claude Code"}),))

    programs.run(deployed.printed("claude-code"), tmp_path)
    found = programs.run("claude mcp list", tmp_path)
    for name in (AGENT, "research"):
        assert re.search(rf"^{name}: \S+/mcp \(HTTP\) - \S+ Connected$", found, re.MULTILINE), found
    with run_llm_stub(answer=answer) as llm:
        model = {"ANTHROPIC_BASE_URL": llm.anthropic_url, "ANTHROPIC_API_KEY": "no-key"}
        command = f"claude -p 'Ask it.' --model stub-model --allowedTools {tool}"
        assert "it said hello from Claude Code" in programs.run(command, tmp_path, more=model)


def test_claude_code_reads_the_file_of_a_project(
    deployed: Deployed, programs: Programs, tmp_path: Path
) -> None:
    _, file = deployed.on_page("claude-code", AGENT)
    (tmp_path / ".mcp.json").write_text(file)
    settings = tmp_path / ".claude" / "settings.local.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"enableAllProjectMcpServers": True}))  # somebody has agreed to it
    found = programs.run(f"claude mcp get {AGENT}", tmp_path)
    assert "Scope: Project config" in found
    assert json.loads(file)["mcpServers"][AGENT]["url"] in found


def test_the_bridge_of_claude_desktops_file_passes_messages_on(
    deployed: Deployed, programs: Programs
) -> None:
    """Not Claude Desktop itself, which comes for desktops only: the program that its file makes it start."""
    server = json.loads(deployed.printed("claude-desktop", AGENT))["mcpServers"][AGENT]
    bridge = StdioServerParameters(
        command=server["command"], args=server["args"], env=programs.environment, cwd=PEERS
    )

    async def ask() -> Any:
        async with Client(bridge) as client:
            return await client.call_tool("send_message", {"message": "hello from the bridge"})

    assert asyncio.run(ask()).content[0].text == "hello from the bridge"


def test_the_file_of_cursor_is_as_it_is_documented(deployed: Deployed) -> None:
    """Not Cursor itself, which comes for desktops only: its `mcpServers` have a `url` for Streamable HTTP."""
    document = json.loads(deployed.printed("cursor", AGENT))
    server = document["mcpServers"][AGENT]
    assert document == {"mcpServers": {AGENT: {"url": server["url"]}}}
    assert asyncio.run(send_message(server["url"], "hello", "legacy")) == "hello"


def test_the_file_and_the_command_of_vs_code_are_as_its_schema_has_them(deployed: Deployed) -> None:
    """Not VS Code itself: the keys and values that the schema of its `mcp.json` allows, with no other ones."""
    file, command = deployed.on_page("vscode", AGENT)
    document = json.loads(file)
    assert list(document) == ["servers"]
    server = document["servers"][AGENT]
    assert server.keys() == {"type", "url"}
    assert server["type"] in ("http", "sse")
    assert re.match(r"https?://.+", server["url"])
    code, option, settings = shlex.split(command)
    assert (code, option, json.loads(settings)) == ("code", "--add-mcp", {"name": AGENT, **server})
    assert asyncio.run(send_message(server["url"], "hello", "legacy")) == "hello"


def test_the_inspector_calls_the_agent_from_the_terminal(deployed: Deployed, programs: Programs) -> None:
    _, command = deployed.on_page("inspector", AGENT)
    assert json.loads(programs.run(command, PEERS))["content"][0]["text"] == "Hello"


def test_the_page_of_the_inspector_has_the_agent(deployed: Deployed, programs: Programs) -> None:
    command = shlex.split(deployed.printed("inspector", AGENT))
    (port, sandbox) = free_ports(2)
    ports = {"CLIENT_PORT": str(port), "MCP_SANDBOX_PORT": str(sandbox)}
    process = subprocess.Popen(
        command,
        cwd=PEERS,
        env={**programs.environment, **ports},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        address = next(line.strip() for line in process.stdout if "MCP_INSPECTOR_API_TOKEN=" in line)
        assert "<title>MCP Inspector</title>" in httpx.get(address).text
        token = address.partition("MCP_INSPECTOR_API_TOKEN=")[2]
        known = httpx.get(
            f"http://127.0.0.1:{port}/api/servers", headers={"x-mcp-remote-auth": f"Bearer {token}"}
        )
        assert known.status_code == 200, known.text
        assert command[-1] in known.text
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_an_agent_of_another_fast_agent_project_calls_it(deployed: Deployed, tmp_path: Path) -> None:
    file, decorator = deployed.on_page("fast-agent", AGENT)
    (tmp_path / "fastagent.config.yaml").write_text(f"{file}\n")
    assert yaml.safe_load(file)["mcp"]["servers"].keys() == {AGENT}
    (tmp_path / "caller.py").write_text(
        CALLER % decorator.replace("(", "(name='caller', model='passthrough', ", 1)
    )
    (tool, message) = f"{AGENT}__send_message", json.dumps({"message": "hello from an agent"})
    said = Programs(tmp_path).run([sys.executable, "caller.py", f"***CALL_TOOL {tool} {message}"], tmp_path)
    assert said.splitlines()[-1].endswith("hello from an agent"), said


CALLER = """
import asyncio
import sys

from fast_agent import FastAgent

fast = FastAgent("another project", parse_cli_args=False, quiet=True)


%s
async def main():
    async with fast.run() as agents:
        print(await agents.caller.send(sys.argv[1]))


asyncio.run(main())
"""


@pytest.mark.parametrize(("release", "agents"), RELEASES, ids=["release 2, all", "release 1, one"])
def test_the_programs_for_the_python_sdk(
    deployed: Deployed, tmp_path: Path, release: int, agents: tuple[str, ...]
) -> None:
    python = sys.executable if release == 2 else python_with_sdk_1()
    (tmp_path / "ask.py").write_text(_program(deployed, "python", release, agents))
    said = Programs(tmp_path).run([python, "ask.py", "hello", "there"], tmp_path)
    assert said == ("hello there\n" if agents else f"{AGENT}: hello there\nresearch: hello there\n")


@pytest.mark.parametrize(("release", "agents"), RELEASES, ids=["release 2, all", "release 1, one"])
def test_the_programs_for_the_typescript_sdk(
    deployed: Deployed, programs: Programs, tmp_path: Path, release: int, agents: tuple[str, ...]
) -> None:
    (tmp_path / "node_modules").symlink_to(MODULES)
    (tmp_path / "ask.mts").write_text(_program(deployed, "typescript", release, agents))
    said = programs.run(["node", "ask.mts", "hello", "there"], tmp_path)
    assert said == ("hello there\n" if agents else f"{AGENT}: hello there\nresearch: hello there\n")


def test_a_program_for_one_agent_says_that_a_call_has_failed(deployed: Deployed, tmp_path: Path) -> None:
    (tmp_path / "ask.py").write_text(
        deployed.printed("python", AGENT).replace('"message": message', '"m": 1')
    )
    with pytest.raises(AssertionError, match="failed: "):
        Programs(tmp_path).run([sys.executable, "ask.py"], tmp_path)


def _program(deployed: Deployed, client: str, release: int, agents: tuple[str, ...]) -> str:
    """Of the current release as it is printed, of the one before as the page shows it."""
    if release == 2:
        return deployed.printed(client, *agents)
    return deployed.on_page(client, *agents)[1]
