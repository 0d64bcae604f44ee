"""What specs of several kinds have: names of other resources, texts for people, lists and mappings of texts.

Readers give JSON in canonical form, and None, an empty list or an empty mapping where nothing is said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from pallas_common.problems import quoted
from pallas_registry.reading.nodes import kind_of
from pallas_registry.resources.kinds import names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pallas_registry.reading.fields import Fields, Rule
    from pallas_registry.reading.rules import Complaint

MOST_NAMES = 200
"""In one list."""


def described(fields: Fields) -> str | None:
    """`description` of what is no agent."""
    return fields.line_of_text("description", names.description)


def named(fields: Fields, key: str, kind: str) -> str | None:
    """The name of another resource: a text, or `{name: …}`."""
    return _reference(fields, key, lambda text: names.resource_name(kind, text))


def all_named(fields: Fields, key: str, kind: str) -> list[str]:
    """A list of other resources' names."""
    found: dict[str, None] = {}
    for item in fields.items(key, MOST_NAMES):
        if isinstance(item.node, yaml.MappingNode):
            name = _name_in(fields.of_item(item), kind)
        elif (name := item.text) is None:
            fields.add(item.line, item.key, f"is {kind_of(item.node)}, not text", "write a name")
        elif complaint := names.resource_name(kind, name):
            fields.add(item.line, item.key, *complaint)
        if name in found:
            fields.add(item.line, item.key, f"names {quoted(name)} twice", "remove one of the two")
        elif name is not None:
            found[name] = None
    return list(found)


def texts(fields: Fields, key: str, rule: Rule, most: int) -> list[str]:
    """A list of texts, each of which passes the rule."""
    found = []
    for item in fields.items(key, most):
        if (text := item.text) is None:
            fields.add(item.line, item.key, f"is {kind_of(item.node)}, not text", "put it in quotes")
        elif complaint := rule(text):
            fields.add(item.line, item.key, *complaint)
        else:
            found.append(text)
    return found


def mapping_of_texts(
    fields: Fields, key: str, rule_of_names: Rule, rule: Callable[[str, str], Complaint | None], most: int
) -> dict[str, str]:
    """A mapping of names to values, as they are written; `rule` gets both."""
    found: dict[str, str] = {}
    section = fields.section(key)
    if section is None:
        return found
    for name in section:
        if len(found) == most:
            fields.refuse(key, f"has more than {most} entries", "remove some")
            break
        value = section.scalar(name)
        if (complaint := rule_of_names(name)) or (value is not None and (complaint := rule(name, value))):
            section.refuse(name, *complaint)
        elif value is not None:
            found[name] = value
    return found


def said(keys: Sequence[str], spec: dict[str, Any], may_be_empty: Sequence[str] = ()) -> dict[str, Any]:
    """What of the spec is said, in the order of the keys; `may_be_empty` are those whose empty lists say something."""
    return {
        key: spec[key]
        for key in keys
        if spec[key] is not None and (key in may_be_empty or spec[key] not in ([], {}))
    }


def extras(fields: Fields) -> dict[str, Any]:
    """What is kept and does nothing."""
    if "extras" in fields and not isinstance(fields.node("extras"), yaml.MappingNode):
        fields.section("extras")
        return {}
    found = fields.value("extras")
    return found if isinstance(found, dict) else {}


def _reference(fields: Fields, key: str, rule: Rule) -> str | None:
    node = fields.node(key)
    if not isinstance(node, yaml.MappingNode):
        return fields.text(key, rule)
    section = fields.section(key)
    if section is None:
        return None
    section.only(("name",))
    section.require("name", "name it, as in `{name: …}`, or write the name alone")
    return section.text("name", rule)


def _name_in(fields: Fields, kind: str) -> str | None:
    fields.only(("name",))
    fields.require("name", "name it, as in `{name: …}`, or write the name alone")
    return fields.text("name", lambda text: names.resource_name(kind, text))
