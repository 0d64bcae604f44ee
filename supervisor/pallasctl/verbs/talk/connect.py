"""The verb `connect`: what to paste into an MCP client.

Knows the status document and who reads which stream; the formats are `pallas_registry.catalogue.connections`. stdout
has what is to be pasted and nothing else, so that it can be piped into a file or a shell; all that explains it is on
stderr, and so are other ways than the usual one, for somebody who looks at a terminal.
"""

from __future__ import annotations

import json
import shlex
import sys
from typing import TYPE_CHECKING

import click

from pallas_common.problems import counted, did_you_mean, no_such_agent, quoted
from pallas_common.terminal_text import terminal_text
from pallas_registry.catalogue.connections import CLIENTS, Endpoint, connection, reach_note
from pallasctl.failures import Failure, NoSuchAgent
from pallasctl.options import control, optional_agent_argument, supervisor_options
from pallasctl.text import Cell, paint, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pallas_control.documents import AgentStatus, StatusDocument
    from pallas_registry.catalogue.connections import Connection


def _read_client(ctx: click.Context, _: click.Parameter, client: str | None) -> str | None:
    if client is not None and client not in CLIENTS:
        near = did_you_mean(client, CLIENTS)
        way_out = f"did you mean {near!r}?" if near else f"the clients are: {', '.join(CLIENTS)}"
        ctx.fail(f"there is no client {quoted(client)}; {way_out}")
    return client


def _complete_client(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    return [client for client in CLIENTS if client.startswith(incomplete)]


@click.command()
@click.argument(
    "client", required=False, metavar="[CLIENT]", callback=_read_client, shell_complete=_complete_client
)
@optional_agent_argument
@supervisor_options
def connect(client: str | None, agent: str | None) -> None:
    """Print what to paste into an MCP client.

    It reaches AGENT, or all agents. CLIENT is claude-code, claude-desktop, cursor, vscode, inspector,
    fast-agent, python or typescript; without one, the clients are listed. The snippet goes to stdout,
    explanations go to stderr: `pallasctl connect cursor > .cursor/mcp.json` writes the file.
    """
    if client is None:
        click.echo(
            table(
                ("CLIENT", "WHAT IS PRINTED"), [[Cell(name), Cell(CLIENTS[name].about)] for name in CLIENTS]
            )
        )
        _explain(
            "",
            "`pallasctl connect CLIENT` prints it for all agents, `pallasctl connect CLIENT AGENT` for one.",
        )
        return
    document: StatusDocument = control().get("/v1/status")
    chosen = _choose(document["agents"], agent)
    agents = [entry for entry in chosen if entry.get("socket") is None or entry.get("url")]
    if not agents:
        message, details = _no_address(chosen)
        raise Failure(message, details=details)
    endpoints = [Endpoint(entry["name"], _url(entry)) for entry in agents]
    _show(connection(client, endpoints))
    if note := reach_note(endpoints):
        _explain(note)
    for entry in agents:
        if entry["state"] not in ("ready", "idle"):
            name = entry["name"]
            _explain(f"{name} is {entry['state']} and does not answer now: `pallasctl status {name}`")
    if left_out := len(chosen) - len(agents):
        _explain(
            f"{counted(left_out, 'agent')} without a port left out: MCP clients have no address for them. "
            f"`run: {{port: N}}` gives an agent a port."
        )


def _choose(known: Sequence[AgentStatus], name: str | None) -> Sequence[AgentStatus]:
    if name is None:
        if not known:
            raise Failure("the deployment has no agents; add one to agents.yaml, then run `pallasctl reload`")
        return known
    found = [agent for agent in known if agent["name"] == name]
    if not found:
        raise NoSuchAgent(no_such_agent([name], [agent["name"] for agent in known]))
    return found


def _no_address(agents: Sequence[AgentStatus]) -> tuple[str, list[str]]:
    """What to say where none of the agents has a port: one line, and those below it."""
    first = agents[0]
    name = first["name"]
    who = f"{name} has no port" if len(agents) == 1 else f"none of the {len(agents)} agents has a port"
    body = json.dumps({"model": name, "messages": [{"role": "user", "content": "Who are you?"}]})
    command = ["curl", "--unix-socket", str(first.get("socket")), "http://localhost/v1/chat/completions"]
    command += ["-H", "Content-Type: application/json", "-d", body]
    return (
        f"{who}, so that MCP clients have no address for it; give it one: `run: {{port: N}}` in its spec",
        [
            f"`pallasctl ask {name}` and `pallasctl chat {name}` work without. So does this, as the same user:",
            shlex.join(command),
        ],
    )


def _url(agent: AgentStatus) -> str:
    if (url := agent.get("url")) is None:
        raise Failure(
            "the supervisor is of an older version and does not tell the agents' URLs; restart it, or see agents.yaml"
        )
    return url


def _show(connection: Connection) -> None:
    first, *others = connection.snippets
    _explain(paint(f"{connection.title}. {first.lead}", "bold"))
    click.echo(terminal_text(first.text))
    for other in others if sys.stdout.isatty() else ():
        _explain("", paint(other.lead, "bold"), terminal_text(other.text))
    _explain(*(["", *connection.notes] if connection.notes else []))


def _explain(*lines: str) -> None:
    for line in lines:
        click.echo(line, err=True)
