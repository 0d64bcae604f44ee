"""The verb `top`: what each agent uses and does, live.

Knows the document of `GET /v1/top`; CPU shares are differences between two of them.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from pallas_common.terminal_text import terminal_json
from pallas_control.errors import ControlError
from pallasctl.live import Screen, is_live_terminal
from pallasctl.options import control, output_option, supervisor_options
from pallasctl.text import one_line, paint
from pallasctl.verbs.state.top_table import KEYS, ORDERS, shares, table_lines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pallas_control.client import Control

    type Document = Mapping[str, Any]

FIRST_LOOK = 1.0
"""Seconds between the two looks of a single table, and before the first figures of a live one."""


@click.command()
@click.option(
    "--interval",
    type=click.FloatRange(min=0.5, max=3600.0),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="From one refresh to the next.",
)
@click.option("-n", "rounds", type=click.IntRange(min=1), metavar="N", help="Refresh so often, then end.")
@click.option("--once", is_flag=True, help="Print one table: as -n 1, and as where stdout is no terminal.")
@click.option(
    "--sort",
    "order",
    type=click.Choice(tuple(ORDERS)),
    default="cpu",
    show_default=True,
    help="What comes first; keys change it.",
)
@output_option("table", "json")
@supervisor_options
def top(*, interval: float, rounds: int | None, once: bool, order: str, output: str) -> None:
    """Show what each agent uses and does, as it changes.

    CPU is of the time since the refresh before, 100% is one core; calls and errors are of the last minute, and
    P50 and P95 say within how many seconds half of the calls, and 95 of 100, have ended since the supervisor's
    start. A single table takes one second to measure. Keys: c, m, r, e, n sort by CPU, memory, calls, errors,
    name; q ends.
    """
    api = control()
    if once or rounds == 1 or output == "json" or not is_live_terminal():
        _once(api, order, output)
    else:
        _live(api, order, interval, rounds)


def _look(api: Control) -> Document:
    document: Document = api.get("/v1/top")
    return document


def _once(api: Control, order: str, output: str) -> None:
    before = _look(api)
    time.sleep(FIRST_LOOK)
    newest = _look(api)
    cpu = shares(before, newest)
    if output == "json":
        supervisor = {**newest["supervisor"], "cpu_percent": cpu.supervisor}
        agents = [{**agent, "cpu_percent": cpu.agents.get(agent["name"])} for agent in newest["agents"]]
        click.echo(terminal_json({**newest, "supervisor": supervisor, "agents": agents}))
        return
    head, rows = table_lines(newest, cpu, order, None)
    for line in (*head, *rows):
        click.echo(line)


def _live(api: Control, order: str, interval: float, rounds: int | None) -> None:
    before, newest, due = None, _look(api), FIRST_LOOK
    shown, trouble = 0, ""
    with Screen() as screen:
        while rounds is None or shown <= rounds:
            cpu = shares(before, newest)
            head, rows = table_lines(newest, cpu, order, screen.size.columns)
            keys = "  ".join(f"{key} {word}" for key, word in KEYS.items())
            foot = paint(f"sort: {keys}   q quit", "dim")
            screen.draw(head, rows, [paint(trouble, "red") or foot], what="agent")
            next_look = time.monotonic() + due
            while (left := next_look - time.monotonic()) > 0:
                typed = screen.wait(left)
                if "q" in typed or "\x1b" in typed:
                    return
                chosen = [KEYS[key] for key in typed if key in KEYS]
                order = chosen[-1] if chosen else order
                head, rows = table_lines(newest, cpu, order, screen.size.columns)
                screen.draw(head, rows, [paint(trouble, "red") or foot], what="agent")
            due = interval
            shown += 1
            try:
                looked = _look(api)
            except ControlError as error:  # it may be on its way back: what was seen last stays
                trouble = one_line(error.message)
            else:
                before, newest, trouble = newest, looked, ""
