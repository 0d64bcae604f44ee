"""One resource as lines for people. Pure.

Knows the document of a resource. What others wrote goes through `one_line`, and the spec through `yaml_text`.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from pallas_common.terminal_text import terminal_text
from pallasctl.text import format_duration, one_line, paint
from pallasctl.yaml_text import yaml_document

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pallasctl.text import Colour

LABEL = 14
"""Columns of the labels, as those of an agent's description."""


def resource_lines(document: Mapping[str, Any], now: datetime) -> Iterator[str]:
    """The lines; none is broken or cut, as they can be copied."""
    metadata, spec, status = (document.get(key) or {} for key in ("metadata", "spec", "status"))
    problems = status.get("problems") or ()
    name = f"{document['kind']}/{metadata['name']}"
    about = one_line(str(spec.get("description") or ""))
    colour: Colour = "red" if problems else "green"
    yield f"{paint('●', colour)} {paint(one_line(name), 'bold')}{f'  {about}' if about else ''}"
    for problem in problems:
        yield _row("Problem", paint(one_line(str(problem)), "red"))
    if (users := status.get("usedBy")) is not None:
        yield _row("Used by", one_line(", ".join(map(str, users))) or paint("nothing", "dim"))
    for label, key in (("Owner", "owner"), ("UID", "uid")):
        if metadata.get(key):
            yield _row(label, one_line(str(metadata[key])))
    if created := metadata.get("createdAt"):
        yield _row("Created", _moment(created, now))
    if (updated := metadata.get("updatedAt")) and updated != created:
        yield _row("Changed", f"{_moment(updated, now)}, version {one_line(str(metadata.get('version')))}")
    yield ""
    yield paint("Says", "bold")
    for line in yaml_document(dict(spec)).split("\n"):
        yield terminal_text(f"  {line}".rstrip())


def _row(label: str, said: str) -> str:
    return f"  {label:<{LABEL}}{said}"


def _moment(time: object, now: datetime) -> str:
    try:
        moment = datetime.fromisoformat(str(time))
        age = format_duration((now - moment).total_seconds())
    except (ValueError, TypeError):
        return one_line(str(time))
    return f"{age} ago ({moment.astimezone():%Y-%m-%d %H:%M:%S})"
