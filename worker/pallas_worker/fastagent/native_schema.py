"""A JSON Schema in the form in which a provider can hold its model to it, as far as it can be said there.

Providers know a part of JSON Schema, refuse the rest with an error, or, in their clients, turn it into something else:
maps become empty objects. What is left out here only makes the form wider; answers are checked against the whole schema
anyway. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_KEPT = frozenset(
    (
        *("description", "enum", "const", "type"),
        *("multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
        *("pattern", "minItems", "maxItems", "required"),
    )
)
_SHAPING = frozenset(
    (
        *("allOf", "not", "if", "then", "else", "dependentSchemas", "dependencies", "dependentRequired"),
        *("patternProperties", "propertyNames", "prefixItems", "additionalItems", "contains", "definitions"),
        *("unevaluatedItems", "unevaluatedProperties"),
    )
)
"""What cannot be left out: without it, most answers would not fit."""
_FORMATS = frozenset(("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"))
_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


class _CannotBeSaidError(Exception):
    """The schema has something that the form has not."""


def strict_form(definition: Mapping[str, Any]) -> dict[str, Any] | None:
    """The schema in the part of JSON Schema that all providers know; None where it cannot be said in it."""
    if definition.get("type") != "object" or "anyOf" in definition or "oneOf" in definition:
        return None  # at the root, they want an object
    try:
        form = _form(definition)
        if "$defs" in definition:
            form["$defs"] = {name: _form(each) for name, each in definition["$defs"].items()}
    except _CannotBeSaidError:
        return None
    return form


def is_recursive(form: Mapping[str, Any]) -> bool:
    """Whether a schema of `strict_form` refers to itself."""
    uses = {f"#/$defs/{name}": _references(each) for name, each in form.get("$defs", {}).items()}
    uses["#"] = _references({key: value for key, value in form.items() if key != "$defs"})
    for start in uses:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            for reference in uses.get(waiting.pop(), ()):
                if reference == start:
                    return True
                if reference not in seen:
                    seen.add(reference)
                    waiting.append(reference)
    return False


def _references(value: object) -> set[str]:
    found: set[str] = set()
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            if isinstance(reference := each.get("$ref"), str):
                found.add(reference)
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
    return found


def _form(schema: Any) -> dict[str, Any]:
    if not isinstance(schema, dict) or not _SHAPING.isdisjoint(schema):
        raise _CannotBeSaidError
    if isinstance(reference := schema.get("$ref"), str):
        # Clients put what it leads to in its place where anything stands beside it, and never end if it is recursive.
        if reference != "#" and not (reference.startswith("#/$defs/") and reference.count("/") == 2):
            raise _CannotBeSaidError
        return {"$ref": reference}
    if alternatives := schema.get("anyOf") or schema.get("oneOf"):
        said = {key: schema[key] for key in ("description",) if key in schema}
        return {**said, "anyOf": [_form(each) for each in alternatives]}
    kind = schema.get("type") or _type_of_values(schema)
    if isinstance(kind, list):
        return {"anyOf": [_form({**schema, "type": each}) for each in kind]}
    form = {key: value for key, value in schema.items() if key in _KEPT} | {"type": kind}
    if kind == "object":
        form |= _object(schema)
    elif kind == "array":
        form["items"] = _form(schema.get("items"))
    elif schema.get("format") in _FORMATS:
        form["format"] = schema["format"]
    return form


def _object(schema: Mapping[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    if not properties or schema.get("additionalProperties", False) is not False:
        raise _CannotBeSaidError  # a map
    if not set(schema.get("required", ())) <= properties.keys():
        raise _CannotBeSaidError
    return {
        "properties": {name: _form(each) for name, each in properties.items()},
        "additionalProperties": False,
    }


def _type_of_values(schema: Mapping[str, Any]) -> str:
    values = schema.get("enum") or ([schema["const"]] if "const" in schema else [])
    kinds = {_TYPES.get(type(value)) for value in values}
    if len(kinds) != 1 or (kind := kinds.pop()) is None:
        raise _CannotBeSaidError
    return kind
