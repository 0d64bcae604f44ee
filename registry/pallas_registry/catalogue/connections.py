"""What a person pastes into an MCP client to reach agents: commands, files, small programs. Pure.

Knows the clients' formats and how each is quoted; nothing of who asks. `pallasctl connect` prints them, the status page
shows them. Each format was tried with the client's own release where there is one: `tests/real/test_clients.py`.
"""

from __future__ import annotations

import ipaddress
import json
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import yaml

from pallas_registry.catalogue.client_programs import (
    python_program,
    python_program_v1,
    typescript_program,
    typescript_program_v1,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    type Endpoints = Sequence["Endpoint"]


class Endpoint(NamedTuple):
    """An agent as a client sees it: the name that it gets there, and its MCP endpoint."""

    name: str
    url: str


@dataclass(frozen=True, slots=True)
class Snippet:
    """Something to paste."""

    lead: str
    """What to do with it, as an instruction that ends with a colon."""
    text: str
    """To be pasted as it is; without a line feed at its end."""


@dataclass(frozen=True, slots=True)
class Connection:
    """How one client reaches the agents."""

    title: str
    """The client, as its maker writes it."""
    snippets: tuple[Snippet, ...]
    """The usual way first; each of the others is another way, or goes with the first."""
    notes: tuple[str, ...] = ()
    """What to know besides, a sentence each."""


def connection(client: str, endpoints: Endpoints) -> Connection:
    """How a client of `CLIENTS` reaches these agents, one at least.

    Raises:
        KeyError: there is no such client.
    """
    return CLIENTS[client].make(endpoints)


def reach_note(endpoints: Endpoints) -> str | None:
    """What to know where the URLs can be used on this machine only; None if they name a machine."""
    if not any(_is_loopback(endpoint.url) for endpoint in endpoints):
        return None
    return "These URLs work on this machine only; for clients elsewhere, set `host:` in agents.yaml."


def _claude_code(endpoints: Endpoints) -> Connection:
    commands = [_shell("claude", "mcp", "add", "--transport", "http", *endpoint) for endpoint in endpoints]
    return Connection(
        "Claude Code",
        (
            Snippet("Run in your project's directory:", "\n".join(commands)),
            Snippet("Or, for all who work on the project, put into .mcp.json:", _http_servers(endpoints)),
        ),
        (
            "With `--scope user` the command adds it to all your projects.",
            "`claude mcp list` shows whether Claude Code is connected.",
        ),
    )


def _claude_desktop(endpoints: Endpoints) -> Connection:
    servers = {
        name: {"command": "npx", "args": ["-y", "mcp-remote", url, *_allow_http(url)]}
        for name, url in endpoints
    }
    return Connection(
        "Claude Desktop",
        (
            Snippet(
                "Put into claude_desktop_config.json (Settings, Developer, Edit Config), and restart Claude Desktop:",
                _json({"mcpServers": servers}),
            ),
        ),
        (
            "The file takes programs, not URLs: mcp-remote is one that passes messages on. It needs Node.js.",
            "A custom connector (Settings, Connectors) is called from Anthropic's servers, not from your machine.",
            _MERGE,
        ),
    )


def _cursor(endpoints: Endpoints) -> Connection:
    servers = {name: {"url": url} for name, url in endpoints}
    return Connection(
        "Cursor",
        (
            Snippet(
                "Put into .cursor/mcp.json in your project, or ~/.cursor/mcp.json for all projects:",
                _json({"mcpServers": servers}),
            ),
        ),
        (_MERGE,),
    )


def _vscode(endpoints: Endpoints) -> Connection:
    servers = {name: {"type": "http", "url": url} for name, url in endpoints}
    commands = [
        _shell("code", "--add-mcp", json.dumps({"name": name, **settings}))
        for name, settings in servers.items()
    ]
    return Connection(
        "VS Code",
        (
            Snippet("Put into .vscode/mcp.json in your workspace:", _json({"servers": servers})),
            Snippet("Or, for all your workspaces, run:", "\n".join(commands)),
        ),
        (_MERGE.replace("mcpServers", "servers"), "The tools are there in the chat's agent mode."),
    )


def _inspector(endpoints: Endpoints) -> Connection:
    inspector = ("npx", "-y", "@modelcontextprotocol/inspector")
    page = [_shell(*inspector, "--transport", "http", "--server-url", url) for _, url in endpoints]
    call = ("--method", "tools/call", "--tool-name", "send_message", "--tool-arg", "message=Hello")
    terminal = [_shell(*inspector, "--cli", url, "--transport", "http", *call) for _, url in endpoints]
    return Connection(
        "MCP Inspector",
        (
            Snippet("Run, to look at it in a browser:", "\n".join(page)),
            Snippet("Or, to call it from the terminal:", "\n".join(terminal)),
        ),
        ("It needs Node.js 22.19 or newer.",),
    )


def _fast_agent(endpoints: Endpoints) -> Connection:
    servers = {name: {"transport": "http", "url": url} for name, url in endpoints}
    text = yaml.safe_dump({"mcp": {"servers": servers}}, sort_keys=False, width=10_000)
    names = ", ".join(json.dumps(name) for name in servers)
    return Connection(
        "fast-agent",
        (
            Snippet("Put into fastagent.config.yaml (or fast-agent.yaml):", text.rstrip("\n")),
            Snippet("And name it in the agent that is to call it:", f"@fast.agent(servers=[{names}])"),
        ),
        (
            "If the caller is an agent of this deployment, name the others in its `depends_on`: they start first then.",
            "Where the file has `mcp: servers:` already, add the entries there.",
        ),
    )


def _python(endpoints: Endpoints) -> Connection:
    return Connection(
        "Python SDK",
        (
            Snippet("Put into ask.py (pip install 'mcp>=2'):", python_program(endpoints)),
            Snippet("Or, with release 1 of the SDK (pip install 'mcp<2'):", python_program_v1(endpoints)),
        ),
        ("Run it: python ask.py 'What can you do?'",),
    )


def _typescript(endpoints: Endpoints) -> Connection:
    return Connection(
        "TypeScript SDK",
        (
            Snippet(
                "Put into ask.mts (npm install @modelcontextprotocol/client):", typescript_program(endpoints)
            ),
            Snippet(
                "Or, with release 1 of the SDK (npm install @modelcontextprotocol/sdk):",
                typescript_program_v1(endpoints),
            ),
        ),
        ("Run it with Node.js 22.18 or newer: node ask.mts 'What can you do?'",),
    )


class Client(NamedTuple):
    """A client of `CLIENTS`."""

    about: str
    """What is printed for it, in a few words."""
    make: Callable[[Endpoints], Connection]


CLIENTS: Mapping[str, Client] = {
    "claude-code": Client("commands for Claude Code", _claude_code),
    "claude-desktop": Client("claude_desktop_config.json for Claude Desktop", _claude_desktop),
    "cursor": Client(".cursor/mcp.json for Cursor", _cursor),
    "vscode": Client(".vscode/mcp.json for VS Code", _vscode),
    "inspector": Client("commands that start the MCP Inspector", _inspector),
    "fast-agent": Client("fastagent.config.yaml of another fast-agent project", _fast_agent),
    "python": Client("a program with the Python SDK", _python),
    "typescript": Client("a program with the TypeScript SDK", _typescript),
}
"""The clients that there is something to paste for, by the names that `pallasctl connect` takes."""

_MERGE = "Where the file exists already, add the entries to its `mcpServers`."


def _http_servers(endpoints: Endpoints) -> str:
    return _json({"mcpServers": {name: {"type": "http", "url": url} for name, url in endpoints}})


def _json(document: object) -> str:
    return json.dumps(document, indent=2)


def _shell(*words: str) -> str:
    """The command as a POSIX shell reads it."""
    return shlex.join(words)


def _allow_http(url: str) -> tuple[str, ...]:
    """What mcp-remote asks for before it sends anything unencrypted to another machine."""
    return () if urlsplit(url).scheme == "https" or _is_loopback(url) else ("--allow-http",)


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
