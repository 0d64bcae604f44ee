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
from pallas_registry.catalogue.entries import is_of_gateway, tool_of

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
    near = [endpoint for endpoint in endpoints if _is_loopback(endpoint.url)]
    if not near:
        return None
    way = (
        "give the gateway a `bind:` and a `public_url:` that they reach"
        if any(is_of_gateway(endpoint.url) for endpoint in near)
        else 'put `gateway: {bind: 0.0.0.0, public_url: "http://NAME:24199"}` into agents.yaml'
    )
    return (
        f"These URLs work on this machine only. For clients elsewhere {way}: "
        "they ask the gateway with a token (`pallasctl token create`)."
    )


def _claude_code(endpoints: Endpoints) -> Connection:
    commands = [
        _shell("claude", "mcp", "add", "--transport", "http", *endpoint) + _header_option(endpoint.url)
        for endpoint in endpoints
    ]
    return Connection(
        "Claude Code",
        (
            Snippet("Run in your project's directory:", "\n".join(commands)),
            Snippet("Or, for all who work on the project, put into .mcp.json:", _http_servers(endpoints)),
        ),
        (
            "With `--scope user` the command adds it to all your projects.",
            "`claude mcp list` shows whether Claude Code is connected.",
            *_token_note(endpoints),
        ),
    )


def _claude_desktop(endpoints: Endpoints) -> Connection:
    servers = {
        name: {
            "command": "npx",
            "args": ["-y", "mcp-remote", url, *_allow_http(url), *(_OF_REMOTE if is_of_gateway(url) else ())],
            **({"env": {"PALLAS_AUTHORIZATION": "Bearer YOUR_TOKEN"}} if is_of_gateway(url) else {}),
        }
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
            *(["In `env`, put your token in place of `YOUR_TOKEN`."] if _by_gateway(endpoints) else []),
        ),
    )


def _cursor(endpoints: Endpoints) -> Connection:
    servers = {name: {"url": url, **_headers(url, "${env:PALLAS_CLIENT_TOKEN}")} for name, url in endpoints}
    return Connection(
        "Cursor",
        (
            Snippet(
                "Put into .cursor/mcp.json in your project, or ~/.cursor/mcp.json for all projects:",
                _json({"mcpServers": servers}),
            ),
        ),
        (_MERGE, *_token_note(endpoints)),
    )


def _vscode(endpoints: Endpoints) -> Connection:
    servers = {
        name: {"type": "http", "url": url, **_headers(url, "${input:pallas-token}")}
        for name, url in endpoints
    }
    asked = {"inputs": [_ASKED]} if _by_gateway(endpoints) else {}
    commands = [
        _shell("code", "--add-mcp", json.dumps({"name": name, **settings}))
        for name, settings in servers.items()
        if "headers" not in settings
    ]
    return Connection(
        "VS Code",
        (
            Snippet("Put into .vscode/mcp.json in your workspace:", _json({**asked, "servers": servers})),
            *([Snippet("Or, for all your workspaces, run:", "\n".join(commands))] if commands else []),
        ),
        (_MERGE.replace("mcpServers", "servers"), "The tools are there in the chat's agent mode."),
    )


def _inspector(endpoints: Endpoints) -> Connection:
    inspector = ("npx", "-y", "@modelcontextprotocol/inspector")
    page = [_shell(*inspector, "--transport", "http", "--server-url", url) for _, url in endpoints]
    terminal = [
        _shell(*inspector, "--cli", url, "--transport", "http", *_call(url)) + _header_option(url)
        for _, url in endpoints
    ]
    return Connection(
        "MCP Inspector",
        (
            Snippet("Run, to look at it in a browser:", "\n".join(page)),
            Snippet("Or, to call it from the terminal:", "\n".join(terminal)),
        ),
        (
            "It needs Node.js 22.19 or newer.",
            *(["In the browser, the token goes below *Authentication*."] if _by_gateway(endpoints) else []),
            *_token_note(endpoints),
        ),
    )


def _fast_agent(endpoints: Endpoints) -> Connection:
    servers = {
        name: {"transport": "http", "url": url, **_headers(url, "${PALLAS_CLIENT_TOKEN}")}
        for name, url in endpoints
    }
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
            *_token_note(endpoints),
            *([_AGENTS_OWN] if _by_gateway(endpoints) else []),
        ),
    )


def _python(endpoints: Endpoints) -> Connection:
    return Connection(
        "Python SDK",
        _programs(
            endpoints,
            ("Put into ask.py (pip install 'mcp>=2'):", python_program),
            ("Or, with release 1 of the SDK (pip install 'mcp<2'):", python_program_v1),
        ),
        ("Run it: python ask.py 'What can you do?'", *_token_note(endpoints)),
    )


def _typescript(endpoints: Endpoints) -> Connection:
    return Connection(
        "TypeScript SDK",
        _programs(
            endpoints,
            ("Put into ask.mts (npm install @modelcontextprotocol/client):", typescript_program),
            (
                "Or, with release 1 of the SDK (npm install @modelcontextprotocol/sdk):",
                typescript_program_v1,
            ),
        ),
        ("Run it with Node.js 22.18 or newer: node ask.mts 'What can you do?'", *_token_note(endpoints)),
    )


def _programs(endpoints: Endpoints, *releases: tuple[str, Callable[..., str]]) -> tuple[Snippet, ...]:
    """A program for each release of an SDK; where some agents want a token and others do not, for both kinds."""
    kinds = [[each for each in endpoints if is_of_gateway(each.url) == wanted] for wanted in (False, True)]
    return tuple(
        Snippet(lead, program(kind, token=token))
        for token, kind in zip((False, True), kinds, strict=True)
        if kind
        for lead, program in releases
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
    servers = {
        name: {"type": "http", "url": url, **_headers(url, "${PALLAS_CLIENT_TOKEN}")}
        for name, url in endpoints
    }
    return _json({"mcpServers": servers})


_ASKED = {"type": "promptString", "id": "pallas-token", "description": "Token of Pallas", "password": True}
"""What VS Code asks for once, and keeps among its secrets."""

_OF_REMOTE = ("--header", "Authorization:${PALLAS_AUTHORIZATION}")
"""Without a space, at which Claude Desktop cuts arguments on some systems."""

_AGENTS_OWN = (
    "An agent of this deployment needs no token of yours: leave `headers` out, and it shows its own."
)


def _by_gateway(endpoints: Endpoints) -> bool:
    return any(is_of_gateway(endpoint.url) for endpoint in endpoints)


def _token_note(endpoints: Endpoints) -> tuple[str, ...]:
    """Where the token comes from that goes with these URLs."""
    if not _by_gateway(endpoints):
        return ()
    return ("`pallasctl token create` makes the token that PALLAS_CLIENT_TOKEN stands for.",)


def _headers(url: str, token: str) -> dict[str, dict[str, str]]:
    """What a client has to send besides, as a part of its settings."""
    return {"headers": {"Authorization": f"Bearer {token}"}} if is_of_gateway(url) else {}


def _header_option(url: str) -> str:
    """The same on a command line; the shell puts the token in."""
    return ' --header "Authorization: Bearer $PALLAS_CLIENT_TOKEN"' if is_of_gateway(url) else ""


def _call(url: str) -> tuple[str, ...]:
    """A first call of the agent, on the Inspector's command line."""
    tool = tool_of(url)
    return ("--method", "tools/call", "--tool-name", tool, "--tool-arg", "message=Hello")


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
