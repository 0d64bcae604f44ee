"""Keys that stand in a file which people share and keep in a repository: where, and where they belong. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from pallas_common.problems import Problem
from pallas_common.secrets.patterns import KEY_SHAPES, credentials
from pallas_registry.reading.nodes import joined, key_name, line_of

if TYPE_CHECKING:
    from collections.abc import Iterator


def literal_keys(root: yaml.Node, file: str, remedy: str) -> list[Problem]:
    """Every text in the composed file that looks like a key of a well-known kind; no problem holds the key."""
    return [
        Problem(file, line_of(node), field, "looks like a key, and whoever reads the file has it", remedy)
        for field, node in _texts(root, "", set())
        if next(credentials(node.value, KEY_SHAPES), None) is not None
    ]


def _texts(node: yaml.Node, field: str, seen: set[int]) -> Iterator[tuple[str, yaml.ScalarNode]]:
    """The scalars in the node with their dotted paths, each once, however many aliases lead to it."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.ScalarNode):
        yield field, node
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _texts(item, f"{field}[{index}]", seen)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield from _texts(key, field, seen)
            yield from _texts(value, joined(field, key_name(key)), seen)
