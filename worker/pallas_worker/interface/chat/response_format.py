"""`response_format` of a chat-completions request: which form an answer has to have.

Pure. Knows OpenAI's fields; what a schema may be is `pallas_common.protocol.agent.output_schema`'s.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING

from pallas_common.problems import quoted
from pallas_common.protocol.agent.output_schema.errors import SchemaError
from pallas_worker.interface.chat.fields import json_object, mapping, only, optional_text, text, truth
from pallas_worker.interface.errors import refuse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pallas_common.protocol.agent.output_schema.schema import OutputSchema

FIELD = "response_format"
_SCHEMA = f"{FIELD}.json_schema"
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")

MOST_KEPT = 4
"""Schemas that are kept ready, of some MB at most: callers send the same one with each request."""


def response_format(body: Mapping[str, object], own: Mapping[str, object] | None) -> OutputSchema | None:
    """What the answer has to fit; None for what the agent says itself.

    Args:
        own: the agent's own `output_schema`.

    Raises:
        ArgumentError: it is malformed, its schema is refused, or it is not what the agent answers.
    """
    if body.get(FIELD) is None:
        return None
    asked = mapping(body, FIELD)
    kind = text(asked.get("type"), f"{FIELD}.type")
    if kind not in ("text", "json_object", "json_schema"):
        refuse(f"{FIELD}.type", f"must be text, json_object or json_schema, not {quoted(kind)}")
    only(asked, ("type", "json_schema") if kind == "json_schema" else ("type",), FIELD)
    if kind == "text":
        return None
    if kind == "json_object":
        if own is None:
            return _kept(json.dumps({"type": "object"}), None)
        if own.get("type") == "object":
            return None
        refuse(FIELD, "the agent answers by a schema of its own, which is not one of objects; remove it")
    return _of_caller(json_object(asked.get("json_schema"), _SCHEMA), own)


def _of_caller(said: Mapping[str, object], own: Mapping[str, object] | None) -> OutputSchema | None:
    only(said, ("name", "schema", "strict", "description"), _SCHEMA)
    name = text(said.get("name"), f"{_SCHEMA}.name")
    if not _NAME.fullmatch(name):
        refuse(f"{_SCHEMA}.name", "must have 1 to 64 letters, digits, underscores and hyphens")
    truth(said, "strict", f"{_SCHEMA}.strict")
    where = f"{_SCHEMA}.schema"
    schema = json_object(said.get("schema"), where)
    if own is not None:
        if schema == own:
            return None
        refuse(where, "the agent answers by a schema of its own, and this is another one; remove it")
    description = optional_text(said, "description")
    if description is not None and "description" not in schema:
        schema = {"description": description, **schema}
    try:
        return _kept(json.dumps(schema), name)
    except RecursionError:
        refuse(where, "is nested too deeply")
    except SchemaError as error:
        place = f"{where}{error.pointer}"
        refuse(place, f"{error.message}; {error.remedy}")


@lru_cache(MOST_KEPT)
def _kept(schema: str, name: str | None) -> OutputSchema:
    from pallas_common.protocol.agent.output_schema.schema import (
        OutputSchema,  # only who asks for it pays: 30 ms
    )

    return OutputSchema(json.loads(schema), name)
