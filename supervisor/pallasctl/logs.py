"""The verb `logs`: what agents and the supervisor have written, from the supervisor's memory.

Knows which fields of a log record people read, and where; `-o json` passes records on as they come.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from pallasctl.failures import EXIT_INTERRUPTED
from pallasctl.options import agents_argument, control, output_option, socket_option
from pallasctl.text import Colour, one_line, paint, parse_duration, printable

if TYPE_CHECKING:
    from collections.abc import Mapping

_LEVEL_COLOURS: Mapping[str, Colour] = {
    "DEBUG": "dim",
    "WARNING": "yellow",
    "ERROR": "red",
    "CRITICAL": "red",
}

_BLOCKS = ("stack", "exception")
_SHOWN = {"time", "level", "logger", "message", "agent", "pid", "generation", *_BLOCKS}
"""What has its own place in a line of text, or is left to `-o json`."""


def _since(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """`10m` back from now, or a moment in ISO 8601; a moment without an offset is local time."""
    if value is None:
        return None
    if (seconds := parse_duration(value)) is not None:
        return f"{seconds:g}"
    try:
        return datetime.fromisoformat(value).astimezone().isoformat()
    except ValueError:
        raise click.BadParameter(
            f"`{value}` is neither a duration like 90s, 10m or 2h nor a moment like 2026-01-31T12:00"
        ) from None


@click.command()
@agents_argument
@click.option("-f", "--follow", is_flag=True, help="Go on with new records until Ctrl-C.")
@click.option(
    "-n",
    "--lines",
    "count",
    type=click.IntRange(min=0),
    metavar="N",
    help="At most the newest N records.  [default: 100; all with --since]",
)
@click.option(
    "--since",
    callback=_since,
    metavar="WHEN",
    help="Only records since then: 10m (back from now) or ISO 8601.",
)
@output_option("text", "json")
@socket_option
@click.pass_context
def logs(
    ctx: click.Context,
    agents: tuple[str, ...],
    *,
    follow: bool,
    count: int | None,
    since: str | None,
    output: str,
) -> None:
    """Show log records, oldest first.

    Those of the named agents, or of all agents and the supervisor.
    """
    query: dict[str, Any] = {"agent": agents, "n": count, "since": since, "follow": 1 if follow else None}
    chosen = {name: value for name, value in query.items() if value is not None}
    try:
        for line in control().lines("/v1/logs", chosen):
            click.echo(line.rstrip(b"\n") if output == "json" else _render(line))
    except KeyboardInterrupt:
        ctx.exit(EXIT_INTERRUPTED)


def _render(line: bytes) -> str:
    try:
        record = json.loads(line)
        moment = datetime.fromisoformat(record["time"]).astimezone()
    except (ValueError, KeyError, TypeError):
        return printable(line.decode(errors="replace").rstrip("\n"))
    level = str(record.get("level", "")).upper()
    time = f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d}"
    source = one_line(str(record.get("agent") or "pallas"))
    others = {
        name: value for name, value in record.items() if name not in _SHOWN and value not in (None, "", {})
    }
    fields = "".join(f" {name}={_value(value)}" for name, value in others.items())
    blocks = "".join(f"\n{record[name]}" for name in _BLOCKS if record.get(name))
    text = printable(f"{record.get('message', '')}{fields}{blocks}").replace("\n", "\n    ")
    return f"{paint(time, 'dim')} {paint(f'{level:<7}', _LEVEL_COLOURS.get(level))} {source}: {text}"


def _value(value: object) -> str:
    if isinstance(value, str) and not any(character in ' "=' for character in value):
        return value
    return json.dumps(value, ensure_ascii=False)
