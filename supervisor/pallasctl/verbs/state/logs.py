"""The verb `logs`: what agents and the supervisor have written, from the supervisor's memory.

Knows which fields of a log record people read, and where; `-o json` passes records on as they come.
"""

from __future__ import annotations

import json
import re
from collections import deque
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from pallas_common.logs.levels import LEVEL_NAMES, level_name
from pallas_common.terminal_text import terminal_text
from pallas_common.times import parse_duration
from pallasctl.agent_names import AgentNames
from pallasctl.failures import EXIT_INTERRUPTED
from pallasctl.interrupts import ending_on_interrupt
from pallasctl.options import control, output_option, supervisor_options, watched_argument
from pallasctl.text import Colour, paint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_LEVEL_COLOURS: Mapping[str, Colour] = {
    "DEBUG": "dim",
    "WARNING": "yellow",
    "ERROR": "red",
    "CRITICAL": "red",
}

_BLOCKS = ("stack", "exception")
_SHOWN = {"time", "level", "logger", "message", "agent", "pid", "generation", *_BLOCKS}
"""Fields with a place of their own in a line of text, or left to `-o json`."""

SUPERVISOR = "pallas"
"""Stands where others have the name of an agent."""

_DEFAULT_COUNT = 100
_EVERYTHING = 1_000_000_000
"""More records than a supervisor keeps."""


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


def _level(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    name = None if value is None else level_name(value)
    if value is not None and name is None:
        raise click.BadParameter(f"`{value}` is not a log level; use one of {', '.join(LEVEL_NAMES)}")
    return name


def _pattern(_: click.Context, __: click.Parameter, value: str | None) -> re.Pattern[str] | None:
    try:
        return None if value is None else re.compile(value)
    except (re.error, RecursionError, OverflowError) as error:
        raise click.BadParameter(
            f"`{value}` is not a regular expression of Python: {error}; a backslash takes a character as it is"
        ) from None


@click.command()
@watched_argument
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
@click.option(
    "--level",
    callback=_level,
    metavar="LEVEL",
    help="Only records of this level and above: warning, error, …",
)
@click.option(
    "--grep",
    "pattern",
    callback=_pattern,
    metavar="REGEX",
    help="Only records in which the message or another text matches; -n counts those.",
)
@output_option("text", "json")
@supervisor_options
@click.pass_context
def logs(
    ctx: click.Context,
    agents: tuple[str, ...],
    *,
    follow: bool,
    count: int | None,
    since: str | None,
    level: str | None,
    pattern: re.Pattern[str] | None,
    output: str,
) -> None:
    """Show log records, oldest first.

    Those of the named agents (`gateway` is the gateway), or of all agents, the gateway and the supervisor.
    """
    wanted = count
    if pattern is not None:
        # On some texts a pattern takes very long: matching here costs this command's time and not the supervisor's.
        wanted = _EVERYTHING
        if count is None:
            count = _DEFAULT_COUNT if since is None else _EVERYTHING
    query: dict[str, Any] = {
        "agent": agents,
        "n": wanted,
        "since": since,
        "level": level,
        "follow": 1 if follow else None,
    }
    chosen = {name: value for name, value in query.items() if value is not None}
    names = AgentNames(agents or [SUPERVISOR], without=[SUPERVISOR])
    try:
        with ending_on_interrupt():
            lines = control().lines("/v1/logs", chosen)
            for line in lines if pattern is None else _matching(lines, pattern, count or 0):
                if line.strip():
                    click.echo(line.rstrip(b"\n") if output == "json" else _render(line, names))
    except KeyboardInterrupt:
        ctx.exit(EXIT_INTERRUPTED)


def _matching(lines: Iterable[bytes], pattern: re.Pattern[str], count: int) -> Iterator[bytes]:
    """Of the lines up to the empty one the last `count` that match, then those that match as they come."""
    rest = iter(lines)
    newest: deque[bytes] = deque(maxlen=count)
    for line in rest:
        if not line.strip():
            break
        if _matches(line, pattern):
            newest.append(line)
    yield from newest
    yield from (line for line in rest if _matches(line, pattern))


def _matches(line: bytes, pattern: re.Pattern[str]) -> bool:
    try:
        record = json.loads(line)
    except ValueError:
        record = None
    if not isinstance(record, dict):
        return pattern.search(line.decode(errors="replace").rstrip("\n")) is not None
    return any(
        isinstance(value, str) and pattern.search(value) is not None
        for name, value in record.items()
        if name != "time"
    )


def _render(line: bytes, names: AgentNames) -> str:
    try:
        record = json.loads(line)
        moment = datetime.fromisoformat(record["time"]).astimezone()
    except (ValueError, KeyError, TypeError):
        return terminal_text(line.decode(errors="replace").rstrip("\n"))
    level = str(record.get("level", "")).upper()
    time = f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d}"
    source = names.cell(str(record.get("agent") or SUPERVISOR), end=":")
    message = str(record.get("message", "")).removeprefix(f"{record.get('agent')}: ")
    others = {
        name: value
        for name, value in record.items()
        if name not in _SHOWN and value not in (None, "", {}) and not _says(message, value)
    }
    fields = "".join(f" {name}={_value(value)}" for name, value in others.items())
    blocks = "".join(f"\n{record[name]}" for name in _BLOCKS if record.get(name))
    text = terminal_text(f"{message}{fields}{blocks}").replace("\n", "\n    ")
    return f"{paint(time, 'dim')} {paint(f'{level:<7}', _LEVEL_COLOURS.get(level))} {source} {text}"


def _says(message: str, value: object) -> bool:
    """Whether the message has said the field already, so that a reader need not read it twice."""
    words = value if isinstance(value, dict) else [value]
    return all(
        isinstance(word, str | int | float) and re.search(rf"(?<!\w){re.escape(str(word))}(?!\w)", message)
        for word in words
    )


def _value(value: object) -> str:
    if isinstance(value, str) and not any(character in ' "=' for character in value):
        return value
    return json.dumps(value, ensure_ascii=False)
