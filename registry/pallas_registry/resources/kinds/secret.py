"""`secret`: values that other resources refer to. No message quotes one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import yaml

from pallas_registry.reading.nodes import kind_of
from pallas_registry.reading.rules import Complaint
from pallas_registry.resources.kinds import names

if TYPE_CHECKING:
    from pallas_registry.reading.fields import Fields

KEYS = ("data",)
MOST_KEYS = 100
LARGEST_VALUE = 64 * 1024
"""Bytes of UTF-8."""
DIGEST = re.compile(r"hmac-sha256:[0-9a-f]{16,64}")


def read(_name: str, fields: Fields) -> dict[str, Any]:
    """The spec; what is shown by its digest is `{"digest": …}` in it, until its value is put there."""
    fields.only(KEYS)
    fields.require("data", "give the values, as in `data: {API_KEY: …}`")
    section = fields.section("data")
    if section is None or not section.is_mapping:
        return {"data": {}}
    if not list(section):
        section.refuse("", "is empty", "give at least one value, as in `API_KEY: …`")
    if len(list(section)) > MOST_KEYS:
        section.refuse("", f"has {len(list(section))} values", f"use at most {MOST_KEYS}")
        return {"data": {}}
    found = {}
    for key in section:
        if complaint := names.secret_key(key):
            section.refuse(key, *complaint)
        elif (value := _value(section, key)) is not None:
            found[key] = value
    return {"data": dict(sorted(found.items()))}


def _value(section: Fields, key: str) -> str | dict[str, str] | None:
    node = section.node(key)
    if isinstance(node, yaml.MappingNode):
        shown = section.section(key)
        if shown is None or list(shown) != ["digest"]:
            section.refuse(key, "is a mapping, not text", "write the value as text, in quotes")
            return None
        digest = shown.text("digest", lambda text: None if DIGEST.fullmatch(text) else _NO_DIGEST)
        return None if digest is None else {"digest": digest}
    if node is None or kind_of(node) != "text":
        kind = "empty" if node is None or kind_of(node) == "empty" else "not text"
        section.refuse(key, f"is {kind}", "write the value as text, in quotes")
        return None
    value = str(node.value)
    if not value:
        section.refuse(key, "is empty", "write the value as text, in quotes")
        return None
    if (size := len(value.encode("utf-8", "surrogatepass"))) > LARGEST_VALUE:
        section.refuse(key, f"has {size} bytes", f"use at most {LARGEST_VALUE}")
        return None
    return value


_NO_DIGEST = Complaint("is no digest that Pallas shows", "write the value itself, as text")
