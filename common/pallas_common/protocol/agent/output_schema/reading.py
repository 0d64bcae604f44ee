"""A JSON Schema from outside, looked through before anything runs on it.

Refused is what reaches out of the schema (remote references would be fetched), what never ends, and what takes long.
Knows keywords of JSON Schema; must not know who wrote the schema, nor how values are checked.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from pallas_common.http.json_bounds import depth_and_size, read_json
from pallas_common.problems import quoted
from pallas_common.protocol.agent.output_schema import limits
from pallas_common.protocol.agent.output_schema.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DRAFTS = {
    "https://json-schema.org/draft/2020-12/schema": 2020,
    "https://json-schema.org/draft/2019-09/schema": 2019,
    "http://json-schema.org/draft-07/schema": 7,
}
"""The dialects that `$schema` may name; 2020-12 is meant where it is missing."""

HERE = ("allOf", "anyOf", "oneOf")
"""Lists of schemas for the same value."""
_HERE_ONE = ("not", "if", "then", "else")
_HERE_MAP = ("dependentSchemas", "dependencies")
_BELOW_ONE = (
    "items",
    "additionalItems",
    "contains",
    "additionalProperties",
    "unevaluatedItems",
    "unevaluatedProperties",
    "propertyNames",
    "contentSchema",
)
_BELOW_LIST = ("prefixItems", "items")
_BELOW_MAP = ("properties", "patternProperties")
_UNUSED_MAP = ("$defs", "definitions")
"""Schemas that count only where a reference leads to them."""

_ELSEWHERE = {
    "$dynamicRef": "use `$ref`",
    "$recursiveRef": "use `$ref`",
    "$anchor": "refer to it by its place, as in `#/$defs/NAME`",
    "$dynamicAnchor": "refer to it by its place, as in `#/$defs/NAME`",
    "$recursiveAnchor": "refer to it by its place, as in `#/$defs/NAME`",
    "$vocabulary": "remove it",
    "id": "remove it",
}

type Schema = Mapping[str, object] | bool


class Edge(NamedTuple):
    """From one schema to another."""

    pointer: str
    """Where the other one is."""
    schema: object
    here: bool
    """It is for the same value; else for a part of it."""
    used: bool = True
    """It counts there, and is not only kept for references."""


def escaped(key: str) -> str:
    """The key as a part of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def keys_of(pointer: str) -> list[str]:
    """The keys of a JSON pointer, from the root on."""
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


class Looked(NamedTuple):
    """A schema all of which can be used."""

    schema: Mapping[str, object]
    """Without its `$id`, which leads nowhere, and which readers would take for the base of references."""
    steps: int
    """Of checking one value by it, at most."""


def look_through(definition: object) -> Looked:
    """The schema, if all of it can be used.

    Raises:
        SchemaError: it cannot; the first reason.
    """
    if not isinstance(definition, dict):
        raise SchemaError("", "is not a mapping", "write a JSON Schema, as in `type: object`")
    _measure(definition)
    root = {key: value for key, value in definition.items() if key != "$id"}
    dialect = root.get("$schema")
    if dialect is not None and (not isinstance(dialect, str) or dialect.removesuffix("#") not in DRAFTS):
        known = ", ".join(DRAFTS)
        raise SchemaError("/$schema", "is not a dialect that is known here", f"use one of {known}, or none")
    try:
        steps = _Walk(root).through()
        _refuse_loops(root)
    except RecursionError:
        raise SchemaError("", "refers too often from reference to reference", "use a flatter one") from None
    return Looked(root, steps)


def edges(root: Mapping[str, object], pointer: str, schema: Mapping[str, object]) -> Iterator[Edge]:
    """The schemas that this one names.

    Raises:
        SchemaError: a reference leads nowhere, or out of the schema.
    """
    if "$ref" in schema:
        yield _referred(root, f"{pointer}/$ref", schema["$ref"])
    for key, value in schema.items():
        at = f"{pointer}/{escaped(key)}"
        if isinstance(value, list) and key in (*HERE, *_BELOW_LIST):
            yield from (Edge(f"{at}/{i}", item, key in HERE) for i, item in enumerate(value))
        elif key in _HERE_ONE:
            yield Edge(at, value, here=True)
        elif key in _BELOW_ONE:
            yield Edge(at, value, here=False)
        elif isinstance(value, dict) and key in (*_HERE_MAP, *_BELOW_MAP, *_UNUSED_MAP):
            for name, item in value.items():
                if not (key == "dependencies" and isinstance(item, list)):
                    yield Edge(f"{at}/{escaped(name)}", item, key in _HERE_MAP, key not in _UNUSED_MAP)


def _referred(root: Mapping[str, object], at: str, reference: object) -> Edge:
    local = "refer to a part of this schema, as in `#/$defs/NAME`; nothing is fetched"
    if not isinstance(reference, str):
        raise SchemaError(at, "is not text", local)
    if reference != "#" and not reference.startswith("#/"):
        raise SchemaError(at, f"{quoted(reference)} leads out of the schema", local)
    if "%" in reference:
        raise SchemaError(at, f"{quoted(reference)} has an escape", "write the name as it is")
    target: object = root
    for key in keys_of(reference):
        if isinstance(target, dict) and key in target:
            target = target[key]
        elif isinstance(target, list) and key.isascii() and key.isdigit() and int(key[:9]) < len(target):
            target = target[int(key[:9])]
        else:
            raise SchemaError(
                at, f"{quoted(reference)} is not in the schema", "define it, or mend the reference"
            )
    return Edge(reference[1:], target, here=True)


class _Walk:
    """Through all schemas of one, each once; identity is by object, since references lead to the same ones."""

    def __init__(self, root: Mapping[str, object]) -> None:
        self._root = root
        self._counted: dict[int, int] = {}
        """Schema → steps of checking a value by it; 0 while it is being counted."""
        self._choices = 0
        self._patterns = 0

    def through(self) -> int:
        """Visit all; the steps of the whole.

        Raises:
            SchemaError: something is not allowed.
        """
        return self._steps("", self._root)

    def _steps(self, pointer: str, schema: object) -> int:
        if isinstance(schema, bool):
            return 1
        if not isinstance(schema, dict):
            raise SchemaError(pointer, "is not a schema", "write a mapping, or `true`")
        key = id(schema)
        if key in self._counted:
            return self._counted[key] or 1  # below itself: a recursive schema, whose values end
        if len(self._counted) >= limits.MOST_SCHEMAS:
            raise SchemaError(pointer, f"has more than {limits.MOST_SCHEMAS} schemas", "use a smaller one")
        self._counted[key] = 0
        self._look_at(pointer, schema)
        steps = 1 + len(_listed(schema.get("enum"))) + len(_listed(schema.get("required")))
        for edge in edges(self._root, pointer, schema):
            more = self._steps(edge.pointer, edge.schema)
            steps += more if edge.used else 0
            if steps > limits.MOST_UNFOLDED:
                raise SchemaError(
                    pointer,
                    "leads to so many others, again and again, that checking an answer would take too long",
                    "use fewer alternatives and references within each other",
                )
        self._counted[key] = steps
        return steps

    def _look_at(self, pointer: str, schema: Mapping[str, object]) -> None:
        for name, remedy in _ELSEWHERE.items():
            # A reference may lead to a mapping of schemas by name, one of which may be called so.
            if isinstance(schema.get(name), str | bool):
                raise SchemaError(f"{pointer}/{name}", "is not supported", remedy)
        for name in ("$id", "$schema"):
            if pointer and name in schema:
                raise SchemaError(f"{pointer}/{name}", "stands within the schema", "remove it")
        self._choices += len(_listed(schema.get("enum")))
        if self._choices > limits.MOST_CHOICES:
            raise SchemaError(
                f"{pointer}/enum", f"makes more than {limits.MOST_CHOICES} choices", "use a pattern, or text"
            )
        by_pattern = schema.get("patternProperties")
        found = [schema["pattern"]] if "pattern" in schema else []
        found += [*by_pattern] if isinstance(by_pattern, dict) else []
        self._patterns += len(found)
        if self._patterns > limits.MOST_PATTERNS:
            raise SchemaError(pointer, f"has more than {limits.MOST_PATTERNS} patterns", "use fewer of them")


def patterns(root: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Each pattern of a schema that has been looked through, with its place."""
    for pointer, schema in _all(root):
        if isinstance(pattern := schema.get("pattern"), str):
            yield f"{pointer}/pattern", pattern
        if isinstance(by_pattern := schema.get("patternProperties"), dict):
            yield from ((f"{pointer}/patternProperties/{escaped(each)}", each) for each in by_pattern)


def _all(root: Mapping[str, object]) -> Iterator[tuple[str, Mapping[str, object]]]:
    """All schemas of one, each once, with its place."""
    seen: set[int] = set()
    waiting: list[tuple[str, object]] = [("", root)]
    while waiting:
        pointer, schema = waiting.pop()
        if isinstance(schema, dict) and id(schema) not in seen:
            seen.add(id(schema))
            yield pointer, schema
            waiting += [(edge.pointer, edge.schema) for edge in edges(root, pointer, schema)]


def _refuse_loops(root: Mapping[str, object]) -> None:
    """Refuse schemas that lead back to themselves for the same value: a check by them never ends."""
    done: set[int] = set()

    def visit(pointer: str, schema: object, above: frozenset[int]) -> None:
        if not isinstance(schema, dict) or id(schema) in done:
            return
        if id(schema) in above:
            never = "leads back to itself for the same value, which never ends"
            raise SchemaError(pointer, never, "take one of the references out of the loop")
        for edge in edges(root, pointer, schema):
            if edge.here:
                visit(edge.pointer, edge.schema, above | {id(schema)})
        done.add(id(schema))

    for pointer, schema in _all(root):
        visit(pointer, schema, frozenset())


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _measure(root: dict[str, object]) -> None:
    try:
        text = json.dumps(root, allow_nan=False, ensure_ascii=False)
        text.encode()
        json_alike = read_json(text) == root
    except RecursionError:
        raise SchemaError("", f"is nested more than {limits.DEEPEST} deep", "use a flatter one") from None
    except (TypeError, ValueError) as error:
        raise SchemaError("", f"cannot be written as JSON: {error}", "use what JSON has") from None
    if not json_alike:
        raise SchemaError("", "cannot be written as JSON: a key is no text", "put the keys in quotes")
    if len(text) > limits.LONGEST_SCHEMA:
        message = f"has {len(text)} characters, which is more than {limits.LONGEST_SCHEMA}"
        raise SchemaError("", message, "use a smaller one")
    if depth_and_size(root)[0] > limits.DEEPEST:
        raise SchemaError("", f"is nested more than {limits.DEEPEST} deep", "use a flatter one")
