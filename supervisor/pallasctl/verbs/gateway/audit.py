"""The verb `audit`: what was done through the gateway, by whom and how it went.

Knows the query and how people read a line; `-o json` passes them on as they come.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import click

from pallas_common.times import parse_duration, rfc3339
from pallasctl.failures import EXIT_INTERRUPTED
from pallasctl.interrupts import ending_on_interrupt
from pallasctl.options import output_option
from pallasctl.text import one_line, paint
from pallasctl.verbs.gateway.asking import gateway, gateway_options

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pallas_control.gateway import Gateway

PATH = "/api/v1/audit"
DEFAULT_COUNT = 100
MOST = 10_000
RETRY = 0.5
"""Seconds until a gateway that has ended a stream is asked again."""

_COLOURS: Mapping[str, Any] = {"ok": "green", "error": "red", "denied": "yellow", "cancelled": "yellow"}


def _since(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """`10m` back from now, or a moment in ISO 8601; a moment without an offset is local time."""
    if value is None:
        return None
    try:
        if (seconds := parse_duration(value)) is not None:
            return rfc3339(datetime.now(UTC) - timedelta(seconds=seconds), "microseconds")
        return rfc3339(datetime.fromisoformat(value).astimezone(), "microseconds")
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"`{value}` is neither a duration like 90s, 10m or 2h nor a moment like 2026-01-31T12:00"
        ) from None


@click.command()
@click.option(
    "-n",
    "--lines",
    "count",
    type=click.IntRange(0, MOST),
    metavar="N",
    help="At most the newest N lines.  [default: 100; all with --since]",
)
@click.option(
    "--since",
    callback=_since,
    metavar="TIME",
    help="Only lines since then: 10m (back from now) or ISO 8601.",
)
@click.option("--principal", metavar="NAME", help="Only of this principal, by its id or name.")
@click.option(
    "--action", metavar="ACTION", help="Only this: tools/call, token.create; or token for all about tokens."
)
@click.option("-f", "--follow", is_flag=True, help="Go on with new lines until Ctrl-C.")
@output_option("text", "json")
@gateway_options
@click.pass_context
def audit(
    ctx: click.Context, /, *, count: int | None, follow: bool, output: str, **wanted: str | None
) -> None:
    """Show what was done through the gateway, oldest first: when, who, what, on what, and how it went.

    It takes a token with the grant `*`, as the operator's is.
    """
    query: dict[str, Any] = {name: value for name, value in wanted.items() if value is not None}
    query["n"] = count if count is not None else MOST if "since" in query else DEFAULT_COUNT
    asked = gateway()
    try:
        with ending_on_interrupt():
            for line in _followed(asked, query) if follow else _lines(asked, query):
                click.echo(json.dumps(line) if output == "json" else audit_line(line))
    except KeyboardInterrupt:
        ctx.exit(EXIT_INTERRUPTED)


def _lines(asked: Gateway, query: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for text in asked.lines(f"{PATH}?{urlencode(query)}"):
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(line, dict):
            yield line


def _followed(asked: Gateway, query: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """For ever; a gateway that is replaced meanwhile is asked for what came after the last line."""
    from pallas_control.errors import GatewayError, GatewayRefusedError

    query = {**query, "follow": 1}
    reached = False
    while True:
        try:
            for line in _lines(asked, query):
                reached = True
                query["since"], query["n"] = _after(str(line.get("time"))), MOST
                yield line
            reached = True
        except GatewayRefusedError:
            raise
        except GatewayError:
            if not reached:
                raise
        time.sleep(RETRY)


def _after(moment: str) -> str:
    """The next moment that a line can have."""
    try:
        return rfc3339(datetime.fromisoformat(moment) + timedelta(microseconds=1), "microseconds")
    except ValueError:
        return rfc3339(datetime.now(UTC), "microseconds")


def audit_line(line: Mapping[str, Any]) -> str:
    """A line for people: local time, who, what on what, how it went, how long it took."""
    try:
        moment = datetime.fromisoformat(str(line["time"])).astimezone()
        when = f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d}"
    except (KeyError, ValueError):
        when = one_line(str(line.get("time")))
    who = one_line(str(line.get("name")))
    if line.get("principal") not in (None, line.get("name")):
        who += paint(f" [{one_line(str(line['principal']))}]", "dim")
    outcome = one_line(str(line.get("outcome")))
    what = one_line(f"{line.get('action')} {line.get('target')}")
    took = line.get("duration_ms")
    duration = f" {took:.0f} ms" if isinstance(took, int | float) else ""
    return f"{paint(when, 'dim')} {who}  {what}  {paint(outcome, _COLOURS.get(outcome))}{duration}"
