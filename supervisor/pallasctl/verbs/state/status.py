"""The verb `status`: what runs, since when, and why not.

Knows the status document and how people read it; asks nothing else of the supervisor.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from pallas_common.problems import no_such_agent
from pallas_common.terminal_text import terminal_json
from pallas_control.errors import ControlError
from pallasctl.failures import EXIT_NOT_RUNNING, StatusUnknown
from pallasctl.options import agents_argument, control, output_option, socket_option
from pallasctl.text import (
    HEALTH_COLOURS,
    STATE_COLOURS,
    Cell,
    format_duration,
    format_size,
    one_line,
    table,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pallas_control.documents import AgentStatus, StatusDocument

STALE = "*"
"""Follows the state of an agent whose worker was started with an older configuration."""

_TABLE = ("NAME", "STATE", "HEALTH", "PID", "PORT", "RESTARTS", "UPTIME")
_WIDE = ("WANTED", "FAILURES", "STARTS", "MEMORY", "SINCE", "LAST EXIT", "DEPENDS ON")


@click.command()
@agents_argument
@output_option("table", "wide", "json")
@socket_option
@click.pass_context
def status(ctx: click.Context, agents: tuple[str, ...], output: str) -> None:
    """Show what runs, and why not.

    Exit status: 0 everything that should run is ready, 3 something is not, 4 unknown, as no supervisor
    answers or it has no such agent. An agent that is named should run.
    """
    try:
        document: StatusDocument = control().get("/v1/status")
    except ControlError as error:
        raise StatusUnknown(error.message, details=error.details) from error
    shown = _choose(document["agents"], agents)
    if output == "json":
        click.echo(terminal_json({**document, "agents": shown}))
    else:
        click.echo(_render(document, shown, datetime.now(UTC), wide=output == "wide"))
        for line in _notes(document, shown):
            click.echo(line)
    due = shown if agents else [agent for agent in shown if agent["desired"] == "up"]
    if any(agent["state"] != "ready" for agent in due):
        ctx.exit(EXIT_NOT_RUNNING)


def _choose(known: Sequence[AgentStatus], names: Sequence[str]) -> list[AgentStatus]:
    if not names:
        return list(known)
    by_name = {agent["name"]: agent for agent in known}
    if unknown := [name for name in dict.fromkeys(names) if name not in by_name]:
        raise StatusUnknown(no_such_agent(unknown, by_name))
    return [by_name[name] for name in dict.fromkeys(names)]


def _render(document: StatusDocument, agents: Sequence[AgentStatus], now: datetime, *, wide: bool) -> str:
    if not wide:
        return table(
            [*_TABLE, "MESSAGE"], [[*_cells(agent, now), _message(agent)] for agent in agents], fit=True
        )
    supervisor = document["supervisor"]
    age = format_duration((now - datetime.fromisoformat(supervisor["since"])).total_seconds())
    summary = f"{document['deployment']}: pallas {supervisor['version']}, pid {supervisor['pid']}, up {age}"
    rows = [[*_cells(agent, now), *_more_cells(agent), _message(agent)] for agent in agents]
    return f"{summary}\n{table([*_TABLE, *_WIDE, 'MESSAGE'], rows)}"


def _cells(agent: AgentStatus, now: datetime) -> list[Cell]:
    up = agent["state"] == "ready"
    age = (now - datetime.fromisoformat(agent["since"])).total_seconds()
    return [
        Cell(agent["name"]),
        Cell(agent["state"] + (STALE if agent.get("outdated") else ""), STATE_COLOURS.get(agent["state"])),
        Cell(agent["health"], HEALTH_COLOURS.get(agent["health"])),
        Cell("-" if agent["pid"] is None else str(agent["pid"])),
        Cell(str(agent["port"])),
        Cell(str(agent["restarts"])),
        Cell(format_duration(age) if up else "-"),
    ]


def _more_cells(agent: AgentStatus) -> list[Cell]:
    since = datetime.fromisoformat(agent["since"]).astimezone()
    return [
        Cell(agent["desired"]),
        Cell(f"{agent['failures']}/{agent['max_failures']}"),
        Cell(str(agent["generation"])),
        Cell(format_size(agent["resident_memory"])),
        Cell(since.strftime("%Y-%m-%d %H:%M:%S")),
        Cell(one_line(agent["last_exit"] or "-")),
        Cell(",".join(agent["depends_on"]) or "-"),
    ]


def _message(agent: AgentStatus) -> Cell:
    return Cell(one_line(agent["message"]))


def _notes(document: StatusDocument, agents: Sequence[AgentStatus]) -> Iterator[str]:
    """Changes of the files that are not in use yet, and what to do about them."""
    older: dict[str, list[str]] = {}
    for agent in agents:
        if outdated := agent.get("outdated"):
            older.setdefault(", ".join(outdated), []).append(agent["name"])
    if older:
        names = "; ".join(f"{', '.join(names)} ({files})" for files, names in older.items())
        yield one_line(
            f"{STALE} started with an older configuration: {names}; `pallasctl reload` replaces them"
        )
    if (files := document.get("configuration")) is None:
        return
    changed = one_line(", ".join(files["changed"]))
    if problems := files["problems"]:
        count = "a problem" if problems == 1 else f"{problems} problems"
        yield f"{changed}: changed, with {count}, and not in use; `pallasctl check` names them"
    elif set(files["changed"]) - {file for agent in agents for file in agent.get("outdated", ())}:
        yield f"{changed}: changed and not in use yet; `pallasctl reload` takes over what it says"
