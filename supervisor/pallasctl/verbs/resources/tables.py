"""Resources of a kind as a table. Pure.

Knows the documents of resources. Names, descriptions and messages are others' words: they go through `one_line`.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from pallasctl.text import HEALTH_COLOURS, STATE_COLOURS, Cell, format_duration, one_line, table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pallas_registry.resources.model import Kind

type Document = Mapping[str, Any]
"""A resource as the control API shows it."""


def source_of(resource: Document) -> str | None:
    """Where an agent of `agents.yaml` stands: `agents.yaml:12`; None of what is kept as a resource."""
    source = resource["metadata"].get("source")
    if not isinstance(source, dict):
        return None
    line = "" if source.get("line") is None else f":{source['line']}"
    return one_line(f"{PurePath(str(source.get('file'))).name}{line}")


class Column(NamedTuple):
    """What a table says of each resource."""

    title: str
    cell: Callable[[Document, datetime], Cell]
    """Of a resource, now."""
    wide: bool = False
    """Whether it is there with `-o wide` alone."""


def resource_table(
    kind: Kind, resources: Sequence[Document], now: datetime, *, wide: bool, named_by_kind: bool = False
) -> str:
    """A header and a line for each; a wide table is never cut to the terminal.

    Args:
        named_by_kind: whether names are `agent/deployer`, as where there are tables of several kinds.
    """
    before = f"{kind}/" if named_by_kind else ""
    columns = [column for column in COLUMNS[kind] if wide or not column.wide]
    rows = [
        [
            Cell(before + one_line(str(resource["metadata"]["name"]))),
            *(column.cell(resource, now) for column in columns),
        ]
        for resource in resources
    ]
    return table(["NAME", *(column.title for column in columns)], rows, fit=not wide)


def _text(value: object) -> Cell:
    """A value as others say it, on one line; a dash where there is none."""
    if isinstance(value, list | tuple):
        value = ", ".join(map(str, value))
    return Cell(one_line(str(value))) if value not in (None, "", {}) else Cell("-", "dim")


def _spec(resource: Document) -> Mapping[str, Any]:
    spec = resource.get("spec")
    return spec if isinstance(spec, dict) else {}


def _status(resource: Document) -> Mapping[str, Any]:
    status = resource.get("status")
    return status if isinstance(status, dict) else {}


def _said(title: str, key: str, *, wide: bool = False) -> Column:
    """A column with what the resource itself says."""
    return Column(title, lambda resource, _: _text(_spec(resource).get(key)), wide)


def _age(resource: Document, now: datetime) -> Cell:
    try:
        created = datetime.fromisoformat(resource["metadata"]["createdAt"])
        return Cell(format_duration((now - created).total_seconds()))
    except (KeyError, ValueError, TypeError):
        return Cell("-", "dim")


def _about(resource: Document, _: datetime) -> Cell:
    if problems := _status(resource).get("problems"):
        return Cell(one_line(str(problems[0])), "red")
    return Cell(one_line(str(_spec(resource).get("description") or "")))


def _model(resource: Document, _: datetime) -> Cell:
    spec = _spec(resource)
    return _text(spec.get("llm") or spec.get("model"))


def _state(resource: Document, _: datetime) -> Cell:
    status = _status(resource)
    if status.get("problems"):
        return Cell("invalid", "red")
    state = status.get("state")
    return Cell(one_line(str(state)), STATE_COLOURS.get(state)) if state else Cell("-", "dim")


def _health(resource: Document, _: datetime) -> Cell:
    health = _status(resource).get("health")
    return Cell(one_line(str(health)), HEALTH_COLOURS.get(health)) if health else Cell("-", "dim")


def _start(resource: Document, _: datetime) -> Cell:
    by_default = "on-demand" if source_of(resource) is None else "always"
    return _text((_spec(resource).get("run") or {}).get("start") or by_default)


def _data(resource: Document, _: datetime) -> Cell:
    return _text(sorted(_spec(resource).get("data") or {}))


def _transport(resource: Document, _: datetime) -> Cell:
    spec = _spec(resource)
    return _text(spec.get("transport") or ("stdio" if spec.get("command") else "http"))


def _target(resource: Document, _: datetime) -> Cell:
    spec = _spec(resource)
    return _text(spec.get("url") or " ".join(map(str, [spec.get("command", ""), *(spec.get("args") or ())])))


def _prompts(resource: Document, _: datetime) -> Cell:
    prompts = _spec(resource).get("prompts") or ()
    return _text([prompt.get("name", "?") for prompt in prompts if isinstance(prompt, dict)])


def _source(resource: Document, _: datetime) -> Cell:
    return Cell(source_of(resource) or "resource")


def _place(resource: Document, _: datetime) -> Cell:
    status = _status(resource)
    return _text(status.get("socket") or status.get("url"))


_AGE = Column("AGE", _age)
_ABOUT = Column("DESCRIPTION", _about)
_MORE_ABOUT = Column("DESCRIPTION", _about, wide=True)

COLUMNS: Mapping[Kind, Sequence[Column]] = {
    "agent": (
        Column("MODEL", _model),
        Column("STATE", _state),
        Column("HEALTH", _health, wide=True),
        _said("PROJECT", "project", wide=True),
        _said("SERVERS", "servers", wide=True),
        Column("START", _start, wide=True),
        Column("SOURCE", _source),
        _AGE,
        Column("AT", _place, wide=True),
        _ABOUT,
    ),
    "llm": (
        _said("TYPE", "type"),
        _said("MODEL", "model"),
        _said("KEY", "apiKeyRef"),
        _AGE,
        _said("URL", "url"),
        _MORE_ABOUT,
    ),
    "secret": (_AGE, Column("KEYS", _data)),
    "server": (Column("TRANSPORT", _transport), _AGE, Column("AT", _target), _MORE_ABOUT),
    "project": (_said("SERVERS", "servers"), Column("PROMPTS", _prompts), _AGE, _ABOUT),
}
"""Kind → its columns behind the name. What may be long comes last, where a narrow terminal cuts it."""
