"""The verb `health`: how well what runs can do its work.

Knows the health document, which the registry port serves to everyone as `GET /health`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from pallas_common.terminal_text import terminal_json
from pallasctl.failures import EXIT_FAILED
from pallasctl.options import control, output_option, supervisor_options
from pallasctl.text import HEALTH_COLOURS, STATE_COLOURS, Cell, format_duration, one_line, paint, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_HEADER = ("NAME", "HEALTH", "STATE", "SINCE", "MESSAGE")
_WIDE = ("AGENT", "KIND", "NAME", "UP", "SINCE", "CHECKED", "LATENCY", "LAST ERROR")


@click.command()
@output_option("table", "wide", "json")
@supervisor_options
@click.pass_context
def health(ctx: click.Context, output: str) -> None:
    """Show the health of the deployment, agents and gateway.

    With `-o wide` also that of what each agent uses.

    Exit status: 0 ok or degraded, 1 error: nothing that should run can serve.
    """
    document = control().get("/v1/health", accept=(200, 503))
    if output == "json":
        click.echo(terminal_json(document))
    else:
        now = datetime.now(UTC)
        click.echo(
            f"{paint(document['status'], HEALTH_COLOURS.get(document['status']))} at {document['timestamp']}"
        )
        rows = [_row(name, agent, now) for name, agent in document["agents"].items()]
        if (gateway := document.get("gateway")) is not None:
            rows.append(_row("gateway", gateway, now))
        click.echo(table(_HEADER, rows, fit=output == "table"))
        used = [row for name, agent in document["agents"].items() for row in _used(name, agent, now)]
        if output == "wide" and used:
            click.echo(f"\n{table(_WIDE, used)}")
    if document["status"] == "error":
        ctx.exit(EXIT_FAILED)


def _row(name: str, agent: Mapping[str, Any], now: datetime) -> list[Cell]:
    return [
        Cell(name),
        Cell(agent["status"], HEALTH_COLOURS.get(agent["status"])),
        Cell(agent["state"], STATE_COLOURS.get(agent["state"])),
        Cell(_ago(agent.get("since"), now)),
        Cell(one_line(agent.get("message", ""))),
    ]


def _used(name: str, agent: Mapping[str, Any], now: datetime) -> Iterator[list[Cell]]:
    """One line for each server and provider that the agent's worker looks at."""
    for server in agent.get("downstreams", ()):
        yield _line(name, "server", server, now)
    if (provider := agent.get("provider")) is not None:
        yield _line(name, "provider", provider, now)


def _line(agent: str, kind: str, found: Mapping[str, Any], now: datetime) -> list[Cell]:
    latency = found["latency"]
    error = found["last_error"]
    when = "" if found["error"] or error is None else f" ({_ago(found['last_error_at'], now)} ago)"
    return [
        Cell(agent),
        Cell(kind),
        Cell(one_line(found["name"])),
        Cell("up", "green") if found["up"] else Cell("down", "red"),
        Cell(_ago(found["since"], now)),
        Cell(_ago(found["checked"], now)),
        Cell("-" if latency is None else f"{latency:.3f}s"),
        Cell(one_line(found.get("incomplete") or ("-" if error is None else error + when))),
    ]


def _ago(moment: str | None, now: datetime) -> str:
    """How long ago that was; the exact moment is in the document."""
    if moment is None:
        return "-"
    return format_duration((now - datetime.fromisoformat(moment)).total_seconds())
