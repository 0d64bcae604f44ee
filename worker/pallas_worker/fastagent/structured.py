"""How an LLM of fast-agent is held to a schema: by its provider where it can be, else by being told.

Knows fast-agent's providers by the names of their classes, whose modules load their libraries; those of other providers
are not loaded for it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from pallas_worker.fastagent.native_schema import is_recursive, strict_form

if TYPE_CHECKING:
    from pallas_common.protocol.agent.output_schema.schema import OutputSchema

NAME = "structured_output"
"""Of schemas without one."""


class Holding(NamedTuple):
    """What holds a model to a schema."""

    params: dict[str, Any]
    """Fields of fast-agent's `RequestParams`."""
    instruction: str
    """For the model to read; empty where its provider knows the schema."""


def holding(llm: Any, schema: OutputSchema) -> Holding:
    """How to hold this LLM to the schema."""
    classes = {each.__name__ for each in type(llm).__mro__}
    of_openai = "OpenAIStructuredOutputMixin" in classes
    definition = dict(schema.definition)
    if schema.any_object:
        params = {"response_format": {"type": "json_object"}} if of_openai else {}
        return Holding(params, "Answer with one JSON object, and with nothing else.")
    form = strict_form(definition)
    if form is not None and (of_openai or not is_recursive(form)):
        return Holding({"structured_schema": form}, "")
    if of_openai and schema.wants_object:
        loosely = {"name": schema.name or NAME, "strict": False, "schema": definition}
        return Holding({"response_format": {"type": "json_schema", "json_schema": loosely}}, "")
    text = json.dumps(definition, ensure_ascii=False)
    return Holding({}, f"Answer with JSON alone, without a code fence, that fits this JSON Schema:\n\n{text}")
