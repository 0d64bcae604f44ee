"""The document of one agent as lines for people. Pure.

Knows the document of `GET /v1/agents/<name>` and how wide the terminal is. What comes from agents and models goes
through `one_line`.
"""

from __future__ import annotations

import itertools
import json
import re
import textwrap
from datetime import datetime
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from pallas_common.problems import counted, shortened
from pallasctl.live import cut
from pallasctl.text import (
    HEALTH_COLOURS,
    STATE_COLOURS,
    Cell,
    Colour,
    format_duration,
    format_size,
    one_line,
    paint,
    table,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

LABEL = 14
"""Columns of the labels."""
NARROWEST = 30
"""Columns below which a line is not broken any more."""
_INDENT = "  "

_COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")
_NO_COLOUR = "\x1b[0m"
_LEVEL_COLOURS: Mapping[str, Colour] = {"WARNING": "yellow", "ERROR": "red", "CRITICAL": "red"}


def agent_lines(document: Mapping[str, Any], now: datetime, columns: int | None) -> Iterator[str]:
    """The lines; None as `columns` breaks none."""
    page = _Page(document, now, columns)
    yield from page.head()
    sections = (
        ("URLs", page.urls()),
        ("Served", page.served()),
        ("MCP servers", page.servers()),
        ("Dependencies", page.dependencies()),
        ("Says", page.declared()),
        ("Settings", page.settings()),
        ("Variables", page.variables()),
        ("Last exits", page.exits()),
        ("Recent warnings and errors", page.errors()),
    )
    for title, lines in sections:
        found = list(lines)
        if found:
            yield ""
            yield paint(title, "bold")
            yield from found


class _Page:
    def __init__(self, document: Mapping[str, Any], now: datetime, columns: int | None) -> None:
        self._document = document
        self._status: Mapping[str, Any] = document["status"]
        self._now = now
        self._columns = columns

    # --- sections -----------------------------------------------------------------------------------------

    def head(self) -> Iterator[str]:
        document, status, health = self._document, self._status, self._document["health"]
        colour = _colour(status["state"], status["health"])
        about = one_line(": ".join(dict.fromkeys((document["title"], document["description"]))))
        yield from self._folded(
            f"{paint('●', colour)} ", 2, paint(one_line(document["name"]), "bold") + f"  {about}"
        )
        state = paint(status["state"], STATE_COLOURS.get(status["state"]))
        wanted = "" if status["desired"] == "up" or status["state"] == "stopped" else ", to be stopped"
        yield from self._row("State", f"{state} {self._since(status['since'])}{wanted}", painted=True)
        yield from self._health(status, health)
        if health["remedy"]:
            yield from self._row("What to do", health["remedy"])
        yield from self._row("Process", self._process())
        if replacement := status.get("replacement"):
            pid = "" if replacement["pid"] is None else f", pid {replacement['pid']}"
            said = f"start {replacement['generation']} is {replacement['state']}{pid}"
            yield from self._row("Second worker", said)
        changed = status.get("changed_code", [])
        if older := [file for file in status.get("outdated", []) if file not in changed]:
            said = f"{', '.join(older)} changed since its start: `pallasctl reload` replaces it"
            yield from self._row("Outdated", said)
        elif changed:  # else the new process for the configuration has the new code as well
            said = f"{', '.join(changed)} changed since its start: `pallasctl restart {status['name']}` takes it over"
            yield from self._row("Outdated", said)
        source = document["source"]
        if source["kind"] != "resource":
            yield from self._row("Source", f"{source['kind']} {source['value']}, in {source['directory']}")
        if source["python"]:
            yield from self._row("Python", source["python"])
        definition = document["definition"]
        line = "" if definition["line"] is None else f":{definition['line']}"
        yield from self._row("Defined in", f"{definition['file'] or 'a resource'}{line}")

    def urls(self) -> Iterator[str]:
        urls = self._document["urls"]
        socket = self._document["status"].get("socket")
        yield from self._row("MCP", urls["mcp"] or f"unix socket {socket}")
        if urls["metrics"]:
            yield from self._row("Metrics", urls["metrics"])
        if urls["page"]:
            yield from self._row("Status page", urls["page"])
        yield from self._row("Log", f"pallasctl logs {self._document['name']} -f")

    def served(self) -> Iterator[str]:
        served = self._document["served"]
        if served is None:
            yield f"{_INDENT}{paint('not known before its first start', 'dim')}"
            return
        yield from self._row("Agent", served["agent"])
        provider = served["provider"]
        reached = "" if provider is None else f", provider {provider['name']} {_reached(provider)}"
        yield from self._row("Model", f"{served['model'] or 'none'}{reached}")
        if capabilities := served["capabilities"]:
            yield from self._row("Capabilities", _capabilities(capabilities))
        parts: Sequence[Mapping[str, Any]] = served["parts"]
        if len(parts) > 1:
            rows = [
                [
                    Cell(one_line(part["name"])),
                    Cell(one_line(part["kind"])),
                    Cell(one_line(part["model"] or "-")),
                    Cell(one_line(", ".join((*part["agents"], *part["servers"])) or "-")),
                ]
                for part in parts
            ]
            yield from self._table(("MADE OF", "KIND", "MODEL", "USES"), rows)
        if tools := list(dict.fromkeys(tool for part in parts for tool in part["tools"])):
            yield from self._row("Tools", f"{len(tools)}: {', '.join(tools)}")
        if left_out := served["left_out"]:
            yield from self._row("", f"{counted(left_out, 'more name')} not shown")

    def servers(self) -> Iterator[str]:
        servers = (self._document["served"] or {}).get("servers") or ()
        rows = []
        for server in servers:
            health = server["health"]
            known = health is not None
            state = Cell("-", "dim")
            if known:
                state = Cell("up", "green") if health["up"] else Cell("down", "red")
            rows.append(
                [
                    Cell(one_line(server["name"])),
                    state,
                    Cell(self._age(health["checked"]) if known else "-"),
                    Cell(one_line(_target(server))),
                    Cell(one_line((health["error"] or health.get("incomplete") or "") if known else "")),
                ]
            )
        if rows:
            yield from self._table(("NAME", "HEALTH", "CHECKED", "AT", "ERROR"), rows)

    def dependencies(self) -> Iterator[str]:
        for label, key, nobody in (("Needs", "depends_on", "nothing"), ("Needed by", "dependents", "nobody")):
            related = self._document[key]
            said = ", ".join(f"{one_line(one['name'])} ({_standing(one)})" for one in related)
            yield from self._row(label, said or paint(nobody, "dim"), painted=True)

    def declared(self) -> Iterator[str]:
        """What the resource of a declared agent says, as YAML."""
        if (resource := self._document.get("resource")) is None:
            return
        from pallasctl.yaml_text import yaml_document

        if spec := {key: value for key, value in resource["spec"].items() if key != "description"}:
            for line in yaml_document(spec).split("\n"):
                yield f"{_INDENT}{line}".rstrip()

    def settings(self) -> Iterator[str]:
        rows = [
            [
                Cell(setting["name"]),
                Cell(one_line(_value(setting["value"]))),
                Cell(self._origin(setting), "dim" if setting["from"] == "built in" else None),
            ]
            for setting in (*self._document["settings"], *self._document["environment_settings"])
        ]
        yield from self._table(("NAME", "VALUE", "FROM"), rows, roomy=1)

    def variables(self) -> Iterator[str]:
        rows = [
            [
                Cell(one_line(variable["name"])),
                Cell("(hidden)", "dim") if variable["hidden"] else Cell(one_line(variable["value"])),
                Cell(self._origin(variable)),
            ]
            for variable in self._document["env"]
        ]
        if rows:
            yield from self._table(("NAME", "VALUE", "FROM"), rows, roomy=1)

    def exits(self) -> Iterator[str]:
        if not (exits := self._document["exits"]):
            yield f"{_INDENT}{paint('none', 'dim')}"
        for past in exits:
            ran = "" if past["ran"] is None else f" after {format_duration(past['ran'])}"
            reason = f": {one_line(past['reason'])}" if past["reason"] else ""
            asked = ", as asked" if past["asked"] else ""
            pid = "" if past["pid"] is None else f", pid {past['pid']}"
            time = paint(_moment(past["time"]), "dim")
            said = f"{past['exit']}{ran}{asked}{reason} (start {past['generation']}{pid})"
            colour: Colour | None = None if past["asked"] else "red"
            yield from self._folded(f"{_INDENT}{time}  ", 23, paint(one_line(said), colour))
            for line in past["lines"]:
                yield from self._log(line, indent=4)

    def errors(self) -> Iterator[str]:
        if not (errors := self._document["errors"]):
            yield f"{_INDENT}{paint('none', 'dim')}"
        for line in errors:
            yield from self._log(line, indent=2)

    # --- lines --------------------------------------------------------------------------------------------

    def _health(self, status: Mapping[str, Any], health: Mapping[str, Any]) -> Iterator[str]:
        word = status["health"]
        since = f" {self._since(health['since'])}" if health["since"] and word != "unknown" else ""
        message = status["message"] or (health.get("message") if word != "ok" else "") or ""
        reason = f": {one_line(message)}" if message else ""
        yield from self._row(
            "Health", f"{paint(word, HEALTH_COLOURS.get(word))}{since}{reason}", painted=True
        )

    def _process(self) -> str:
        status, process = self._status, self._document["process"]
        counts = f"{counted(status['restarts'], 'restart')}, failures {status['failures']}/{status['max_failures']}"
        if process is None or process["pid"] is None:
            return f"none; {counts}"
        memory = "" if process["memory"] is None else f", {format_size(process['memory'])}"
        started = "" if process["started"] is None else f", started {self._age(process['started'])}"
        return f"pid {process['pid']}{memory}, start {process['generation']}{started}; {counts}"

    def _log(self, line: Mapping[str, Any], indent: int) -> Iterator[str]:
        level = one_line(line["level"])
        time = paint(_moment(line["time"]), "dim")
        before = f"{' ' * indent}{time}  {paint(f'{level:<7}', _LEVEL_COLOURS.get(level))} "
        yield from self._folded(before, indent + 29, one_line(line["message"]))

    def _row(self, label: str, text: str, *, painted: bool = False) -> Iterator[str]:
        """A label and what it says; one that is painted is safe already."""
        said = text if painted else one_line(text)
        yield from self._folded(f"{_INDENT}{label:<{LABEL}}", len(_INDENT) + LABEL, said)

    def _folded(self, before: str, indent: int, text: str) -> Iterator[str]:
        """The text behind what is before it, which takes `indent` columns; broken where the terminal ends."""
        if self._columns is None or self._columns - indent < NARROWEST:
            yield before + text
            return
        first, *rest = _wrapped(text, self._columns - indent)
        yield before + first
        for line in rest:
            yield " " * indent + line

    def _table(
        self, header: Sequence[str], rows: list[list[Cell]], roomy: int | None = None
    ) -> Iterator[str]:
        """A table below a section's title; where it does not fit, the column `roomy` gives way, or else the last."""
        if self._columns is not None and roomy is not None and rows:
            widths = [max(len(row[at].text) for row in rows) for at in range(len(header))]
            others = sum(max(width, len(header[at])) + 2 for at, width in enumerate(widths) if at != roomy)
            room = max(self._columns - len(_INDENT) - others, len(header[roomy]), 10)
            rows = [
                [
                    *row[:roomy],
                    Cell(cut(row[roomy].text, room), row[roomy].colour),
                    *row[roomy + 1 :],
                ]
                for row in rows
            ]
        for line in table(header, rows).splitlines():
            text = f"{_INDENT}{line}"
            yield text if self._columns is None else cut(text, self._columns)

    def _origin(self, row: Mapping[str, Any]) -> str:
        if row["line"] is None:
            return one_line(row["from"])
        file = PurePath(self._document["definition"]["file"]).name
        place = one_line(f"{file}:{row['line']}")
        return f"{place} (defaults)" if row["from"] == "defaults" else place

    def _since(self, time: str) -> str:
        moment = datetime.fromisoformat(time)
        age = format_duration((self._now - moment).total_seconds())
        return f"for {age} (since {_moment(time)})"

    def _age(self, time: str | None) -> str:
        if time is None:
            return "-"
        return f"{format_duration((self._now - datetime.fromisoformat(time)).total_seconds())} ago"


def _wrapped(text: str, width: int) -> list[str]:
    """The text, which may hold our own colours, in lines of so many columns."""
    plain, colours = _without_colours(text)
    lines, at = [], 0
    for line in textwrap.wrap(plain, width, break_on_hyphens=False) or [""]:
        at = max(plain.find(line, at), at)
        lines.append(_coloured(line, colours[at : at + len(line)]))
        at += len(line)
    return lines


def _without_colours(text: str) -> tuple[str, list[str]]:
    """The text without colours, and for each character the one that it has."""
    plain, colours, colour = "", [], ""
    for part in _COLOUR.split(text):
        if _COLOUR.fullmatch(part):
            colour = "" if part == _NO_COLOUR else part
        else:
            plain += part
            colours += [colour] * len(part)
    return plain, colours


def _coloured(line: str, colours: Sequence[str]) -> str:
    runs = itertools.groupby(zip(line, colours, strict=True), key=lambda one: one[1])
    texts = ((colour, "".join(character for character, _ in run)) for colour, run in runs)
    return "".join(f"{colour}{text}{_NO_COLOUR}" if colour else text for colour, text in texts)


def _colour(state: str, health: str) -> Colour | None:
    return HEALTH_COLOURS.get(health) if state == "ready" else STATE_COLOURS.get(state)


def _standing(one: Mapping[str, Any]) -> str:
    state = paint(one["state"], STATE_COLOURS.get(one["state"]))
    if one["state"] != "ready" or one["health"] == "ok":
        return state
    return f"{state}, {paint(one['health'], HEALTH_COLOURS.get(one['health']))}"


def _reached(looked_at: Mapping[str, Any]) -> str:
    if looked_at["up"]:
        return "up" if looked_at["latency"] is None else f"up ({looked_at['latency'] * 1000:.0f} ms)"
    return f"down: {looked_at['error'] or 'no reason given'}"


def _target(server: Mapping[str, Any]) -> str:
    target: str = server["target"] or "-"
    how = {"stdio": " (a command)", "sse": " (sse)"}
    return target + how.get(server["transport"] or "", "")


def _value(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_value, value)) or "none"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, bool | dict):  # a mapping is an output schema: `pallasctl cat` has all of it
        return shortened(json.dumps(value, ensure_ascii=False))
    return "none" if value is None else str(value)


def _capabilities(said: Mapping[str, Any]) -> str:
    images = "images" if said["vision"] else "no images"
    return f"{images}, context {said['context_window']:,} tokens, answers {said['max_output_tokens']:,}"


def _moment(time: str) -> str:
    """A time as people here read it; the text itself if it is none."""
    try:
        return datetime.fromisoformat(time).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except ValueError:
        return one_line(time)[:19]
