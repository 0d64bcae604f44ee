"""The forms that JSON Schemas of operations are made of. Pure."""

from __future__ import annotations

from typing import Any

type Json = dict[str, Any]


def ref(name: str) -> Json:
    """One of `SCHEMAS`."""
    return {"$ref": f"#/components/schemas/{name}"}


def text(description: str = "", **more: Any) -> Json:
    """A text."""
    return {"type": "string", **({"description": description} if description else {}), **more}


def moment(description: str) -> Json:
    """A time (RFC 3339, in UTC)."""
    return text(description, format="date-time")


def nullable(schema: Json) -> Json:
    """That, or null."""
    return {**schema, "type": [schema["type"], "null"]}


def several(schema: Json, description: str = "") -> Json:
    """A list of these."""
    return {"type": "array", "items": schema, **({"description": description} if description else {})}


def record(properties: Json, *optional: str, description: str = "") -> Json:
    """An object with these fields, all of them but `optional` ones always there."""
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        **({"description": description} if description else {}),
    }


def page_of(name: str) -> Json:
    """A list in portions."""
    cursor = nullable(text("For `cursor` of the next request; null at the end"))
    return record({"items": several(ref(name)), "nextCursor": cursor})
