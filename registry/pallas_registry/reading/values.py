"""A node of YAML as a value of JSON; what JSON does not have is refused. Knows no keys and no meaning."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import yaml

from pallas_common.http.json_bounds import is_number_of_json
from pallas_common.problems import Problem, quoted
from pallas_registry.reading.nodes import LOADER, Mappings, joined, line_of

if TYPE_CHECKING:
    from collections.abc import Callable

_YES_OR_NO = {"yes", "no", "on", "off"}

NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?")
"""As JSON writes one. YAML 1.1 takes some of them for texts: `1e-05`."""


def value_of(
    node: yaml.Node, mappings: Mappings, add: Callable[[Problem], None], file: str, field: str
) -> Any:
    """The node as what JSON has; what cannot be is noted."""
    if isinstance(node, yaml.MappingNode):
        entries = mappings.entries(node, field)
        return {
            key: value_of(entry.value, mappings, add, file, joined(field, key))
            for key, entry in entries.items()
        }
    if isinstance(node, yaml.SequenceNode):
        return [
            value_of(item, mappings, add, file, f"{field}[{index}]") for index, item in enumerate(node.value)
        ]

    def refuse(message: str, remedy: str) -> None:
        add(Problem(file, line_of(node), field, message, remedy))

    text = str(node.value)
    value: Any
    if node.tag == "tag:yaml.org,2002:bool" and text.lower() in _YES_OR_NO:
        refuse(f"{quoted(text)} is a truth value in YAML", "put it in quotes, or write `true` or `false`")
        return None
    if node.tag == "tag:yaml.org,2002:timestamp":
        refuse("is a date, which JSON does not have", "put it in quotes")
        return None
    if node.tag == "tag:yaml.org,2002:str" and not getattr(node, "style", None) and NUMBER.fullmatch(text):
        value = float(text)
    else:
        try:
            value = LOADER("").construct_object(node)
        except (yaml.YAMLError, ValueError) as error:
            refuse(f"cannot be read: {error}", "put it in quotes")
            return None
    if isinstance(value, (int, float)) and not is_number_of_json(value):
        refuse("is a number that JSON does not have", "write another one, or put it in quotes")
        return None
    return value
