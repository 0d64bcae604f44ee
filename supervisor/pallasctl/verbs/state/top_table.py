"""The table of `top`: CPU shares from two documents, an order, and as many columns as fit. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from pallasctl.live import cut
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
from pallasctl.verbs.state.readiness import count_ready, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    type Document = Mapping[str, Any]

HEADER = (
    "NAME",
    "STATE",
    "HEALTH",
    "CPU%",
    "MEMORY",
    "RUNNING",
    "WAITING",
    "CALLS/MIN",
    "ERRORS/MIN",
    "P50",
    "P95",
    "RESTARTS",
)
_LEFT = 3
"""Columns that begin at the left; the others are numbers."""
GIVEN_UP = ("P50", "P95", "WAITING", "RESTARTS", "ERRORS/MIN", "HEALTH")
"""Columns that are left out where there is no room, the first one first."""
KEYS = {"c": "cpu", "m": "memory", "r": "calls", "e": "errors", "n": "name"}
"""Key → the order that it chooses."""

SUPERVISOR = "(supervisor)"


class Shares(NamedTuple):
    """CPU in percent of one core; None where nothing is known to compare with."""

    supervisor: float | None
    agents: Mapping[str, float | None]


def shares(before: Document | None, newest: Document) -> Shares:
    """The CPU shares between two documents."""
    if before is None or before["supervisor"]["pid"] != newest["supervisor"]["pid"]:
        return Shares(None, {})
    seconds = newest["clock"] - before["clock"]
    earlier = {agent["name"]: agent["cpu_seconds"] for agent in before["agents"]}
    return Shares(
        _share(before["supervisor"]["cpu_seconds"], newest["supervisor"]["cpu_seconds"], seconds),
        {
            agent["name"]: _share(earlier.get(agent["name"]), agent["cpu_seconds"], seconds)
            for agent in newest["agents"]
        },
    )


def _share(before: float | None, now: float | None, seconds: float) -> float | None:
    if before is None or now is None or seconds <= 0:
        return None
    return round(max(now - before, 0.0) / seconds * 100, 1)


ORDERS: Mapping[str, Callable[[Mapping[str, Any], Shares], Any]] = {
    "cpu": lambda agent, cpu: -(cpu.agents.get(agent["name"]) or 0.0),
    "memory": lambda agent, _: -(agent["memory"] or 0),
    "calls": lambda agent, _: (-agent["calls_per_minute"], -agent["running"]),
    "errors": lambda agent, _: -agent["errors_per_minute"],
    "name": lambda agent, _: agent["name"],
}
"""By what agents are sorted; those that are equal stay in the order of `agents.yaml`."""


def table_lines(
    document: Document, cpu: Shares, order: str, columns: int | None
) -> tuple[list[str], list[str]]:
    """What stays above, with the supervisor's own row, and one line for each agent.

    Args:
        columns: of the terminal; None where there is none, and everything is shown.
    """
    shown = listed(document["agents"], (), fold=True)
    agents = sorted(shown, key=lambda agent: ORDERS[order](agent, cpu))
    rows = [_supervisor(document["supervisor"], cpu), *(_agent(agent, cpu) for agent in agents)]
    header, rows = _fitting(list(HEADER), rows, columns)
    lines = table(header, rows).splitlines()
    lines = [line if columns is None else cut(line, columns) for line in lines]
    head = [_summary(document), "", *lines[:2]]
    return [head[0] if columns is None else cut(head[0], columns), *head[1:]], lines[2:]


def _summary(document: Document) -> str:
    agents = document["agents"]
    running, waiting = (sum(agent[key] for agent in agents) for key in ("running", "waiting"))
    supervisor = document["supervisor"]
    now, since = (datetime.fromisoformat(text) for text in (document["time"], supervisor["since"]))
    age = format_duration((now - since).total_seconds())
    ready = count_ready(agents, short=True)
    return (
        f"{paint(one_line(document['deployment']), 'bold')}: {ready}; calls: {running} running, {waiting} waiting; "
        f"pallas {one_line(supervisor['version'])}, pid {supervisor['pid']}, up {age}"
    )


def _supervisor(supervisor: Mapping[str, Any], cpu: Shares) -> list[Cell]:
    cells = [Cell(SUPERVISOR, "dim"), Cell(""), Cell(""), _percent(cpu.supervisor)]
    cells.append(Cell(format_size(supervisor["memory"])))
    return [*cells, *(Cell("") for _ in HEADER[len(cells) :])]


def _agent(agent: Mapping[str, Any], cpu: Shares) -> list[Cell]:
    state, health = agent["state"], agent["health"] if agent["state"] == "ready" else "-"
    errors = agent["errors_per_minute"]
    return [
        Cell(one_line(agent["name"])),
        Cell(state, STATE_COLOURS.get(state)),
        Cell(health, HEALTH_COLOURS.get(health)),
        _percent(cpu.agents.get(agent["name"])),
        Cell(format_size(agent["memory"])),
        _count(agent["running"]),
        _count(agent["waiting"], "yellow"),
        Cell(_rate(agent["calls_per_minute"])),
        Cell(_rate(errors), "red" if errors else None),
        Cell(_seconds(agent["p50"])),
        Cell(_seconds(agent["p95"])),
        Cell(str(agent["restarts"])),
    ]


def _percent(share: float | None) -> Cell:
    return Cell("-", "dim") if share is None else Cell(f"{share:.1f}")


def _count(number: int, colour: Any = None) -> Cell:
    return Cell(str(number), colour if number else None)


def _rate(per_minute: float) -> str:
    return f"{per_minute:.0f}" if per_minute >= 10 or per_minute == 0 else f"{per_minute:.1f}"


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1000:.0f}ms" if seconds < 1 else f"{seconds:.1f}s"


def _fitting(
    header: list[str], rows: list[list[Cell]], columns: int | None
) -> tuple[Sequence[str], list[list[Cell]]]:
    """The columns that there is room for, numbers at the right."""
    for title in ("", *GIVEN_UP):
        if title:
            at = header.index(title)
            header = header[:at] + header[at + 1 :]
            rows = [row[:at] + row[at + 1 :] for row in rows]
        widths = [max(map(len, column)) for column in _texts(header, rows)]
        if columns is None or sum(widths) + 2 * (len(widths) - 1) <= columns:
            break
    left = [title for title in header if title in HEADER[:_LEFT]]
    aligned = [
        [
            cell if at < len(left) else Cell(cell.text.rjust(width), cell.colour)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        for row in rows
    ]
    titles = [
        title if at < len(left) else title.rjust(width)
        for at, (title, width) in enumerate(zip(header, widths, strict=True))
    ]
    return titles, aligned


def _texts(header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[list[str]]:
    return [[title, *(row[at].text for row in rows)] for at, title in enumerate(header)]
