"""`output_schema:` of an agent: a JSON Schema that stands there, or in a file.

Knows YAML's nodes and where a schema can be; what a schema may be is `pallas_common.protocol.agent.output_schema`'s.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import yaml

from pallas_common.problems import ConfigurationError, Problem, quoted
from pallas_common.protocol.agent.output_schema.errors import SchemaError
from pallas_common.protocol.agent.output_schema.reading import keys_of
from pallas_registry.reading.files import text_of
from pallas_registry.reading.nodes import Mappings, compose, kind_of, line_of
from pallas_registry.reading.values import value_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from pallas_registry.reading.fields import Fields


def output_schema(
    fields: Fields, folder: Path, read: Callable[[Path], bytes | None]
) -> Mapping[str, Any] | None:
    """The schema of the key `output_schema`; None where there is none, or none that can be used.

    Args:
        folder: where relative paths begin.
        read: gives a file's content, None for none.
    """
    key = "output_schema"
    if fields.node(key) is None:
        return None
    if isinstance(fields.node(key), yaml.MappingNode):
        return inline_schema(fields, key)
    path = fields.text(key)
    if path is None:
        return None
    try:
        return _checked(_in_file(folder / path, path, read))
    except SchemaError as error:
        at = f"{path}: {error.pointer}" if error.pointer else path
        fields.refuse(key, f"{at}: {error.message}", error.remedy)
    except ConfigurationError as error:
        for problem in error.found:
            line = f":{problem.line}" if problem.line is not None else ""
            said = ": ".join(filter(None, (problem.field, problem.message)))
            fields.refuse(key, f"{path}{line}: {said}", problem.remedy)
    return None


def inline_schema(fields: Fields, key: str) -> Mapping[str, Any] | None:
    """The schema that stands at the key; None where there is none, or none that can be used."""
    node = fields.node(key)
    if node is None:
        return None
    if not isinstance(node, yaml.MappingNode):
        fields.refuse(key, f"is {kind_of(node)}, not a mapping", "write the JSON Schema itself there")
        return None
    with_lines = _Plain(node, fields, key)
    try:
        return _checked(with_lines.value)
    except SchemaError as error:
        place = error.pointer.removeprefix("/").replace("/", ".")
        fields.add(
            with_lines.line(error.pointer), f"{key}.{place}" if place else key, error.message, error.remedy
        )
        return None


def _checked(definition: Any) -> Mapping[str, Any]:
    # Only a deployment that has such schemas pays for the library: 6 MB and 30 ms.
    from pallas_common.protocol.agent.output_schema.schema import OutputSchema

    return OutputSchema(definition).definition


def _in_file(file: Path, shown: str, read: Callable[[Path], bytes | None]) -> Any:
    """The content of a JSON or YAML file.

    Raises:
        ConfigurationError: it cannot be read as what its name says.
        SchemaError: it is none of the two.
    """
    if file.suffix.lower() not in (".json", ".yaml", ".yml"):
        raise SchemaError("", "is no .json or .yaml file", "write the schema there, or name such a file")
    data = read(file)
    if data is None:
        where = "write it, or mend the path: it is relative to the folder of this file"
        raise ConfigurationError([Problem(str(file), None, "", "there is no such file", where)])
    if file.suffix.lower() == ".json":
        try:
            return json.loads(text_of(data, str(file)), object_pairs_hook=_without_doubles)
        except json.JSONDecodeError as error:
            problem = Problem(str(file), error.lineno, "", f"not valid JSON: {error.msg}", "mend it there")
            raise ConfigurationError([problem]) from None
        except RecursionError:
            raise SchemaError("", "is nested too deeply", "use a flatter one") from None
    root = compose(data, str(file))
    if root is None:
        raise SchemaError("", "is empty", "write a JSON Schema there")
    problems: list[Problem] = []
    value = value_of(root, Mappings(str(file), problems), problems.append, str(file), "")
    if problems:
        raise ConfigurationError(problems)
    return value


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise SchemaError("", f"the key {quoted(twice)} is given twice", "keep one of the two")
    return found


class _Plain:
    """What a node stands for, and the lines of its parts."""

    def __init__(self, node: yaml.MappingNode, fields: Fields, key: str) -> None:
        self._node = node
        self.value = fields.value(key)

    def line(self, pointer: str) -> int:
        """The line of the place that a JSON pointer names, or of the last one on the way that is there."""
        node: yaml.Node = self._node
        line = line_of(node)
        for key in keys_of(pointer):
            below = next((value for name, value in _below(node) if name == key), None)
            if below is None:
                break
            node, line = below, line_of(below)
        return line


def _below(node: yaml.Node) -> Iterator[tuple[str, yaml.Node]]:
    if isinstance(node, yaml.MappingNode):
        yield from ((str(key.value), value) for key, value in node.value)
    elif isinstance(node, yaml.SequenceNode):
        yield from ((str(index), value) for index, value in enumerate(node.value))
