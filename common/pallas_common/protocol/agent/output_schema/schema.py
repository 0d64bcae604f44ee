"""A schema that answers have to fit, and the check of an answer.

Knows the library that checks, whose patterns run in linear time and which fetches nothing; must not know who asks.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jsonschema_rs

from pallas_common.http.json_bounds import depth_and_size, read_json
from pallas_common.problems import shortened
from pallas_common.protocol.agent.output_schema import limits
from pallas_common.protocol.agent.output_schema.errors import Misfit, MisfitError, SchemaError
from pallas_common.protocol.agent.output_schema.explaining import Explaining
from pallas_common.protocol.agent.output_schema.reading import (
    DRAFTS,
    escaped,
    look_through,
    patterns,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_PATTERNS = jsonschema_rs.RegexOptions(size_limit=limits.PATTERN_BYTES, dfa_size_limit=limits.PATTERN_BYTES)
_OPTIONS: dict[str, Any] = {"offline": True, "validate_formats": True, "pattern_options": _PATTERNS}
_VALIDATORS: Mapping[int, Any] = {
    2020: jsonschema_rs.Draft202012Validator,
    2019: jsonschema_rs.Draft201909Validator,
    7: jsonschema_rs.Draft7Validator,
}


@dataclass(frozen=True, slots=True)
class Structured:
    """An answer that fits."""

    text: str
    """The JSON alone."""
    value: Any


class OutputSchema:
    """A JSON Schema that has been looked through."""

    def __init__(self, definition: Mapping[str, object], name: str | None = None) -> None:
        """Read the schema.

        Args:
            name: what the caller calls it, for providers that want a name.

        Raises:
            SchemaError: it is refused.
        """
        self._own, self._steps = look_through(definition)
        self.definition = definition
        self.name = name
        _refuse_long_patterns(self._own)
        draft = DRAFTS[str(self._own.get("$schema", next(iter(DRAFTS)))).removesuffix("#")]
        try:
            self._validator = _VALIDATORS[draft](self._own, **_OPTIONS)
        except (jsonschema_rs.ValidationError, ValueError) as error:
            _refuse_patterns(self._own)
            raise _as_schema_error(error) from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OutputSchema) and other.definition == self.definition

    __hash__ = None  # type: ignore[assignment]  # a schema is compared, never a key

    @property
    def any_object(self) -> bool:
        """Whether it asks for a JSON object, and for nothing else."""
        return self.definition == ANY_OBJECT

    @property
    def wants_object(self) -> bool:
        """Whether only JSON objects fit."""
        return self.definition.get("type") == "object"

    def check(self, text: str) -> Structured:
        """The answer in a model's text; a code fence around all of it is left out.

        Raises:
            MisfitError: it is no JSON, or does not fit.
        """
        text = _unfenced(text.strip(" \t\r\n"))
        if not text:
            raise _misfit("is empty, and has to be JSON")
        if len(text) > limits.LONGEST_ANSWER:
            raise _misfit(f"has more than {limits.LONGEST_ANSWER} characters")
        try:
            value = read_json(text)
        except RecursionError:
            raise _misfit(f"is nested more than {limits.DEEPEST} deep") from None
        except UnicodeEncodeError:
            raise _misfit("has an escape that stands for half a character") from None
        except json.JSONDecodeError as error:
            raise _misfit(f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
        except ValueError:
            raise _misfit("has a number that JSON does not have, or one of too many digits") from None
        depth, size = depth_and_size(value)
        if depth > limits.DEEPEST:
            raise _misfit(f"is nested more than {limits.DEEPEST} deep")
        if size > limits.MOST_VALUES:
            raise _misfit(f"has more than {limits.MOST_VALUES} values")
        if self._steps * max(size, len(text) // limits.CHARACTERS_A_STEP) > limits.MOST_WORK:
            raise _misfit("is too large to be checked by a schema of this size")
        if not self._validator.is_valid(value):
            raise MisfitError(self._explaining.misfits(value))
        return Structured(text, value)

    @cached_property
    def _explaining(self) -> Explaining:
        parts = jsonschema_rs.validator_map_for(dict(self._own), **_OPTIONS)
        return Explaining(self._own, parts, jsonschema_rs.validator_for, _OPTIONS)


ANY_OBJECT: Mapping[str, object] = {"type": "object"}


def _misfit(reason: str) -> MisfitError:
    return MisfitError((Misfit("", reason),))


def _unfenced(text: str) -> str:
    opening, _, rest = text.partition("\n")
    if opening.rstrip() not in ("```", "```json", "```JSON") or not rest.endswith("```"):
        return text
    return rest.removesuffix("```").strip()


_REMEDY = "write it without lookahead, lookbehind and backreferences, and with small repetitions"


def _refuse_long_patterns(root: Mapping[str, object]) -> None:
    for pointer, pattern in patterns(root):
        if len(pattern) > limits.LONGEST_PATTERN:
            message = (
                f"the pattern has {len(pattern)} characters, which is more than {limits.LONGEST_PATTERN}"
            )
            raise SchemaError(pointer, message, _REMEDY)


def _refuse_patterns(root: Mapping[str, object]) -> None:
    """Refuse the first pattern that the engine does not take, if there is one: the library names none."""
    for pointer, pattern in patterns(root):
        try:
            jsonschema_rs.Draft202012Validator({"pattern": pattern}, **_OPTIONS)
        except (jsonschema_rs.ValidationError, ValueError):
            message = f"the pattern {shortened(pattern)} is no regular expression that takes linear time"
            raise SchemaError(pointer, message, _REMEDY) from None


_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")


def _as_schema_error(error: jsonschema_rs.ValidationError | ValueError) -> SchemaError:
    if not isinstance(error, jsonschema_rs.ValidationError):
        return SchemaError("", f"is not JSON Schema: {shortened(str(error))}", "mend it there")
    pointer = "".join(f"/{escaped(str(part))}" for part in error.instance_path)
    if pointer.endswith("/type") and isinstance(error.kind, jsonschema_rs.ValidationErrorKind.AnyOf):
        # Of this one, the library only says that it fits no alternative of JSON Schema's own schema.
        said = shortened(json.dumps(error.instance, ensure_ascii=False))
        return SchemaError(pointer, f"{said} is no type", f"use {', '.join(_TYPES)}, or a list of them")
    return SchemaError(pointer, f"is not JSON Schema: {shortened(error.message)}", "mend it there")
