"""Fields of a JSON request, read strictly: what does not fit is refused with the name of its place.

Pure. Knows JSON's types; must not know what a field is for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pallas_common.problems import did_you_mean, kind_of, quoted, shortened
from pallas_worker.interface.errors import ArgumentError, refuse

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

MAX_PATTERNS = 1000
"""Entries of a list of tools."""
LONGEST_PATTERN = 256
"""Characters of one of them."""


def text(value: object, where: str) -> str:
    """The string at this place."""
    if not isinstance(value, str):
        refuse(where, f"must be a string, not {kind_of(value)}")
    return value


def optional_text(fields: Mapping[str, object], name: str) -> str | None:
    """The string of a field that may be absent or null."""
    value = fields.get(name)
    return None if value is None else text(value, name)


def truth(fields: Mapping[str, object], name: str, where: str | None = None) -> bool:
    """The truth value of a field; False where it is absent or null."""
    value = fields.get(name)
    if value is None:
        return False
    if not isinstance(value, bool):
        refuse(where or name, f"must be true or false, not {kind_of(value)}")
    return value


def mapping(fields: Mapping[str, object], name: str) -> dict[str, object]:
    """The object of a field; empty where it is absent or null."""
    value = fields.get(name)
    if value is None:
        return {}
    return json_object(value, name)


def json_object(value: object, where: str) -> dict[str, object]:
    """The object at this place."""
    if not isinstance(value, dict):
        refuse(where, f"must be an object, not {kind_of(value)}")
    return value


def patterns(fields: Mapping[str, object], name: str) -> tuple[str, ...] | None:
    """The list of tools' names or patterns of a field; None where it is absent or null."""
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, list):
        refuse(name, f"must be a list of tools, not {kind_of(value)}")
    if len(value) > MAX_PATTERNS:
        refuse(name, f"has {len(value)} entries; {MAX_PATTERNS} are allowed")
    found = []
    for index, entry in enumerate(value):
        where = f"{name}[{index}]"
        if not (pattern := text(entry, where)):
            refuse(where, "is empty; name a tool, as in server__tool")
        if len(pattern) > LONGEST_PATTERN:
            refuse(where, f"is longer than {LONGEST_PATTERN} characters")
        found.append(pattern)
    return tuple(found)


def left_out(fields: Mapping[str, object], known: Collection[str], where: str) -> list[str]:
    """The fields that say something and that nobody reads, by their place without a number: `messages.id`."""
    return [f"{where}.{name}" for name, value in fields.items() if value is not None and name not in known]


def only(fields: Mapping[str, object], known: Collection[str], where: str = "") -> None:
    """Refuse a field that is not among the known ones."""
    for name in fields:
        if name not in known:
            near = did_you_mean(name, known)
            remedy = f"did you mean {near}?" if near else "remove it"
            place = f"{where}.{shortened(name)}" if where else shortened(name)
            raise ArgumentError(f"{where or 'the request'}: unknown field {quoted(name)}; {remedy}", place)
