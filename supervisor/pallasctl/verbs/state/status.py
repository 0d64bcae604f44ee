"""The verb `status`: what runs, since when, and why not.

Knows the status document and how people read it; asks nothing else of the supervisor.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from pallas_common.problems import no_such_agent
from pallas_common.terminal_text import terminal_json
from pallas_control.errors import ControlError
from pallasctl.failures import EXIT_INTERRUPTED, EXIT_NOT_RUNNING, NoSuchAgent, StatusUnknown
from pallasctl.options import agents_argument, control, output_option, supervisor_options
from pallasctl.text import (
    HEALTH_COLOURS,
    STATE_COLOURS,
    Cell,
    format_duration,
    format_size,
    one_line,
    paint,
    table,
)
from pallasctl.verbs.gateway.status import line_of, serves
from pallasctl.verbs.state.readiness import count_ready, is_available, listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pallas_control.client import Control
    from pallas_control.documents import AgentStatus, GatewayStatus, StatusDocument

STALE = "*"
"""Follows the state of an agent whose worker was started with an older configuration or with older code."""

MOST_FILES = 3
"""Source files of an agent that are named."""

_TABLE = ("NAME", "STATE", "HEALTH", "PID", "PORT", "RESTARTS", "UPTIME")
_WIDE = ("WANTED", "FAILURES", "STARTS", "MEMORY", "SINCE", "LAST EXIT", "DEPENDS ON")


@click.command()
@agents_argument
@click.option(
    "-w", "--watch", "live", is_flag=True, help="Keep it on the screen, drawn at each change; q ends."
)
@click.option(
    "-a", "--all", "everything", is_flag=True, help="List idle agents also where they are more than 20."
)
@click.option(
    "--state",
    "states",
    multiple=True,
    metavar="STATE",
    type=click.Choice(tuple(STATE_COLOURS)),
    help="Only agents in this state; may be given several times.",
)
@output_option("table", "wide", "json")
@supervisor_options
@click.pass_context
def status(
    ctx: click.Context,
    agents: tuple[str, ...],
    *,
    live: bool,
    everything: bool,
    states: tuple[str, ...],
    output: str,
) -> None:
    """Show what runs, and why not.

    An idle agent runs as soon as somebody connects, and is as good as ready. In a terminal, more than 20 idle agents
    are a number below the table.

    Exit status: 0 everything that should run is ready, 2 wrong usage or no such agent, 3 something is not
    ready, 4 unknown, as no supervisor answers. An agent that is named should run.
    """
    if live:
        _require_screen(output)
    try:
        asked = control()
        document: StatusDocument = asked.get("/v1/status")
    except ControlError as error:
        raise StatusUnknown(error.message, details=error.details) from error
    chosen = _choose(document["agents"], agents)
    fold = not (agents or everything)
    if live:
        _watch(ctx, asked, document, agents, states, fold=fold, wide=output == "wide")
        return
    shown = listed(chosen, states, fold=fold and output != "json" and is_terminal())
    door = None if agents else document.get("gateway")
    if output == "json":
        click.echo(terminal_json({**document, "agents": shown}))
    else:
        if shown or not chosen or output == "wide":
            click.echo(_render(document, shown, datetime.now(UTC), wide=output == "wide"))
        for line in (*_door(door), *_notes(document, chosen), *_folded(chosen, shown, states)):
            click.echo(line)
    due = chosen if agents else [agent for agent in chosen if agent["desired"] == "up"]
    closed = door is not None and door["desired"] == "up" and not serves(door)
    if closed or not all(is_available(agent) for agent in due):
        ctx.exit(EXIT_NOT_RUNNING)


def is_terminal() -> bool:
    """Whether a person reads it: what goes into a pipe has all agents."""
    return sys.stdout.isatty()


def _require_screen(output: str) -> None:
    from pallasctl.live import require_live_terminal

    if output == "json":
        raise click.UsageError("--watch draws a table; `pallasctl events -f -o json` follows what happens")
    require_live_terminal("--watch", "`pallasctl events -f` writes a line for each change")


def _watch(
    ctx: click.Context,
    asked: Control,
    document: StatusDocument,
    names: Sequence[str],
    states: Sequence[str],
    *,
    fold: bool,
    wide: bool,
) -> None:
    """Keep the table on the screen."""
    from pallasctl.verbs.state.watch import Picture, watch

    def draw(newest: StatusDocument) -> Picture:
        now = datetime.now(UTC)
        chosen = [agent for agent in newest["agents"] if not names or agent["name"] in names]
        agents = listed(chosen, states, fold=fold)
        moment = paint(f"{now.astimezone():%H:%M:%S}", "dim")
        summary = f"{_summary(newest, now)}; {count_ready(chosen)}  {moment}"
        header, *rows = _table(agents, now, wide=wide, fit=False).split("\n")
        notes = [
            *_door(None if names else newest.get("gateway")),
            *_notes(newest, chosen),
            *_folded(chosen, agents, states),
        ]
        return Picture([summary, "", header], rows, ["", *notes] if notes else [])

    try:
        watch(asked, document, draw)
    except KeyboardInterrupt:
        ctx.exit(EXIT_INTERRUPTED)


def _choose(known: Sequence[AgentStatus], names: Sequence[str]) -> list[AgentStatus]:
    if not names:
        return list(known)
    by_name = {agent["name"]: agent for agent in known}
    if unknown := [name for name in dict.fromkeys(names) if name not in by_name]:
        raise NoSuchAgent(no_such_agent(unknown, by_name))
    return [by_name[name] for name in dict.fromkeys(names)]


def _render(document: StatusDocument, agents: Sequence[AgentStatus], now: datetime, *, wide: bool) -> str:
    shown = _table(agents, now, wide=wide, fit=True)
    return f"{_summary(document, now)}; {count_ready(document['agents'])}\n{shown}" if wide else shown


def _summary(document: StatusDocument, now: datetime) -> str:
    supervisor = document["supervisor"]
    age = format_duration((now - datetime.fromisoformat(supervisor["since"])).total_seconds())
    return f"{document['deployment']}: pallas {supervisor['version']}, pid {supervisor['pid']}, up {age}"


def _table(agents: Sequence[AgentStatus], now: datetime, *, wide: bool, fit: bool) -> str:
    """A header and a line for each agent; the wide table is never cut to `fit`."""
    if wide:
        rows = [[*_cells(agent, now), *_more_cells(agent), _message(agent, now)] for agent in agents]
        return table([*_TABLE, *_WIDE, "MESSAGE"], rows)
    rows = [[*_cells(agent, now), _message(agent, now)] for agent in agents]
    return table([*_TABLE, "MESSAGE"], rows, fit=fit)


def _cells(agent: AgentStatus, now: datetime) -> list[Cell]:
    up = agent["state"] == "ready"
    age = (now - datetime.fromisoformat(agent["since"])).total_seconds()
    return [
        Cell(agent["name"]),
        Cell(agent["state"] + (STALE if agent.get("outdated") else ""), STATE_COLOURS.get(agent["state"])),
        Cell(agent["health"], HEALTH_COLOURS.get(agent["health"])),
        Cell("-" if agent["pid"] is None else str(agent["pid"])),
        Cell("-" if agent["port"] is None else str(agent["port"])),
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


def _message(agent: AgentStatus, now: datetime) -> Cell:
    if agent["state"] == "idle" and not agent["message"]:
        age = format_duration((now - datetime.fromisoformat(agent["since"])).total_seconds())
        return Cell(f"idle for {age}; starts when somebody connects", "dim")
    return Cell(one_line(agent["message"]))


def _door(gateway: GatewayStatus | None) -> Iterator[str]:
    """The gateway, which is no agent."""
    if gateway is not None:
        yield line_of(gateway)


def _folded(
    chosen: Sequence[AgentStatus], shown: Sequence[AgentStatus], states: Sequence[str]
) -> Iterator[str]:
    """How many idle agents the table does not list."""
    if not states and (left := len(chosen) - len(shown)):
        more = " more" if shown else ""
        yield f"{left}{more} agents are idle and start when somebody connects; `pallasctl status --all` lists them"


def _few(files: Sequence[str]) -> str:
    more = f" and {len(files) - MOST_FILES} more" if len(files) > MOST_FILES else ""
    return ", ".join(files[:MOST_FILES]) + more


def _by_files(agents: Mapping[str, Sequence[str]]) -> str:
    """The agents, by the files that concern them: `jarvis, research (agents.yaml); library (.env)`."""
    return "; ".join(f"{', '.join(names)} ({files})" for files, names in agents.items())


def _notes(document: StatusDocument, agents: Sequence[AgentStatus]) -> Iterator[str]:
    """Changes of the files that are not in use yet, and what to do about them."""
    older: dict[str, list[str]] = {}
    code: dict[str, list[str]] = {}
    replacing: list[str] = []
    for agent in agents:
        changed = agent.get("changed_code", [])
        if agent.get("outdated") and agent.get("replacing"):
            replacing.append(agent["name"])
        elif outdated := [file for file in agent.get("outdated", []) if file not in changed]:
            older.setdefault(", ".join(outdated), []).append(agent["name"])
        elif changed:  # else the new process for the configuration has the new code as well
            code.setdefault(_few(changed), []).append(agent["name"])
    if replacing:
        yield one_line(f"{STALE} started with older files and being replaced: {', '.join(replacing)}")
    if older:
        yield one_line(
            f"{STALE} started with an older configuration: {_by_files(older)}; `pallasctl reload` replaces them"
        )
    if code:
        names = " ".join(name for names in code.values() for name in names)
        yield one_line(
            f"{STALE} code has changed since the start of {_by_files(code)}; "
            f"`pallasctl restart {names}` takes it over"
        )
    if (files := document.get("configuration")) is None:
        return
    unused = one_line(", ".join(files["changed"]))
    if problems := files["problems"]:
        count = "a problem" if problems == 1 else f"{problems} problems"
        yield f"{unused}: changed, with {count}, and not in use; `pallasctl check` names them"
    elif set(files["changed"]) - {file for agent in agents for file in agent.get("outdated", ())}:
        yield f"{unused}: changed and not in use yet; `pallasctl reload` takes over what it says"
