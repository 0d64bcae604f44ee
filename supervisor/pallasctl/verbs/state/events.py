"""The verb `events`: what has happened to agents, the configuration and the supervisor.

Knows what events say and how people read them; `-o json` passes them on as they come.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from pallas_common.problems import no_such_agent
from pallas_control.events import follow_events, read_events
from pallasctl.agent_names import AgentNames
from pallasctl.failures import EXIT_INTERRUPTED, NoSuchAgent
from pallasctl.interrupts import ending_on_interrupt
from pallasctl.options import GATEWAY, complete_agent_or_gateway, control, output_option, supervisor_options
from pallasctl.text import HEALTH_COLOURS, STATE_COLOURS, one_line, paint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pallas_control.client import Control
    from pallas_control.documents import EventDocument, StatusDocument

DEFAULT_COUNT = 100


@click.command()
@click.argument("names", nargs=-1, metavar="[AGENT]...", shell_complete=complete_agent_or_gateway)
@click.option("-f", "--follow", is_flag=True, help="Go on with new events until Ctrl-C.")
@click.option(
    "-n",
    "--lines",
    "count",
    type=click.IntRange(min=0),
    default=DEFAULT_COUNT,
    show_default=True,
    metavar="N",
    help="At most the newest N events.",
)
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    metavar="KIND",
    help="Only of this kind: agent, gateway, configuration, supervisor.",
)
@output_option("text", "json")
@supervisor_options
@click.pass_context
def events(
    ctx: click.Context,
    names: tuple[str, ...],
    *,
    follow: bool,
    count: int,
    kinds: tuple[str, ...],
    output: str,
) -> None:
    """Show what has happened, oldest first.

    To the named agents (`gateway` is the gateway), or to all agents, the gateway, the configuration and the
    supervisor. With -f it goes on when the supervisor is restarted.
    """
    asked = control()
    status: StatusDocument = asked.get("/v1/status")
    known = [agent["name"] for agent in status["agents"]]
    others = [status["deployment"], *([GATEWAY] if status.get("gateway") else [])]
    if unknown := [name for name in names if name not in (*known, *others)]:
        raise NoSuchAgent(no_such_agent(unknown, known))
    query = {"name": names, "kind": kinds, "n": count}
    try:
        with ending_on_interrupt():
            found = follow_events(asked, query) if follow else read_events(asked, query)
            if output == "json":
                _print_json(found, asked)
            else:
                _print_text(found, asked, AgentNames(names or known, without=[*others, ""]))
    except KeyboardInterrupt:
        ctx.exit(EXIT_INTERRUPTED)


def _print_json(found: Iterable[EventDocument | None], asked: Control) -> None:
    for event in found:
        if event is None:
            _say_gone(asked)
        else:
            click.echo(json.dumps(event))


def _print_text(found: Iterable[EventDocument | None], asked: Control, names: AgentNames) -> None:
    for event in found:
        if event is None:
            _say_gone(asked)
        else:
            click.echo(event_line(event, names))


def _say_gone(asked: Control) -> None:
    click.echo(
        f"pallasctl: nobody answers on {asked.path} any more; waiting for the supervisor to be started",
        err=True,
    )


def event_line(event: Mapping[str, Any], names: AgentNames) -> str:
    """An event as a line: local time, what it is about, what happened."""
    try:
        moment = datetime.fromisoformat(event["time"]).astimezone()
        time = f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d}"
    except ValueError:
        time = one_line(event["time"])
    return f"{paint(time, 'dim')} {names.cell(event['name'])}  {_said(event)}"


def _said(event: Mapping[str, Any]) -> str:
    word = one_line(str(event["event"]))
    match event["kind"], event["event"]:
        case "agent" | "gateway", "state":
            return _with(_changed(event, "state", STATE_COLOURS) + _process(event), event)
        case "agent" | "gateway", "health":
            return _with("health " + _changed(event, "health", HEALTH_COLOURS), event)
        case "agent" | "gateway", "replacement":
            stage = one_line(str(event.get("replacement")))
            return f"second worker {stage}{_process(event)}"
        case "agent" | "gateway", "restart":
            return f"restart ({one_line(str(event.get('reason')))})"
        case "agent", "added" | "removed" | "changed":
            return f"{word} by a reload"
        case "configuration", "reloaded":
            return f"configuration reloaded: {_reloaded(event)}"
        case "supervisor", "started":
            version, pid = one_line(str(event.get("version"))), event.get("pid")
            return paint(f"supervisor started: pallas {version}, pid {pid}", "bold")
        case "supervisor", _:
            return paint(f"supervisor {word}", "bold")
        case "gap", _:
            return paint(one_line(str(event.get("message") or word)), "yellow")
        case kind, _:
            return _with(f"{one_line(str(kind))} {word}", event)


def _changed(event: Mapping[str, Any], what: str, colours: Mapping[str, Any]) -> str:
    """`ready -> backoff`, or one word where it is the same."""
    before, after = one_line(str(event.get("previous"))), one_line(str(event.get(what)))
    shown = paint(after, colours.get(after))
    return shown if before == after else f"{before} -> {shown}"


def _process(event: Mapping[str, Any]) -> str:
    """Which worker it is, in the states where that says something."""
    if (pid := event.get("pid")) is None:
        return ""
    return paint(f" [generation {event.get('generation')}, pid {pid}]", "dim")


def _reloaded(event: Mapping[str, Any]) -> str:
    parts = []
    for word in ("added", "removed", "changed"):
        names = event.get(word)
        if isinstance(names, list) and names:
            parts.append(f"{word} {', '.join(one_line(str(name)) for name in names)}")
    return "; ".join(parts) or "no agent changed"


def _with(text: str, event: Mapping[str, Any]) -> str:
    """The text, with why."""
    why = one_line(str(event.get("message") or event.get("exit") or ""))
    return f"{text}: {why}" if why else text
