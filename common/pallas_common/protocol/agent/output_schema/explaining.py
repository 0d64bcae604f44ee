"""Why a value does not fit a schema: which part of it, and which word of the schema it offends.

The library's own list of errors follows each alternative into its depth, which takes for ever for some schemas; this
one goes down only where a part does not fit, and stops at a number. Knows keywords; must not know answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pallas_common.problems import shortened
from pallas_common.protocol.agent.output_schema import limits
from pallas_common.protocol.agent.output_schema.errors import Misfit
from pallas_common.protocol.agent.output_schema.reading import escaped, keys_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_ALONE = frozenset(
    (
        *("type", "enum", "const"),
        *("multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
        *("minLength", "maxLength", "pattern", "format"),
        *("minItems", "maxItems", "uniqueItems"),
        *("minProperties", "maxProperties", "required", "dependentRequired"),
    )
)
"""Keywords that mean the same without those beside them, and have no schemas below."""

_MASK = "the value"


class Explaining:
    """Explains for one schema.

    Args:
        root: the schema.
        parts: validators by `#` and the pointer of a schema in it.
        validator_for: makes a validator.
        options: its options.
    """

    def __init__(
        self,
        root: Mapping[str, Any],
        parts: Any,
        validator_for: Callable[..., Any],
        options: Mapping[str, Any],
    ) -> None:
        self._root = root
        self._parts = parts
        self._validator_for = validator_for
        self._options = options

    def misfits(self, value: object) -> tuple[Misfit, ...]:
        """The first few things that are wrong with a value that does not fit."""
        found: list[Misfit] = []
        for misfit in self._wrong("", self._root, value, ""):
            if misfit not in found:
                found.append(misfit)
            if len(found) >= limits.MOST_MISFITS:
                break
        return tuple(found) or (Misfit("", "does not fit the schema"),)

    def _fits(self, pointer: str, value: object) -> bool:
        validator = self._parts.get(f"#{pointer}")
        return validator is None or bool(validator.is_valid(value))

    def _below(self, pointer: str, schema: Any, value: object, path: str) -> Iterator[Misfit]:
        if not self._fits(pointer, value):
            yield from self._wrong(pointer, schema, value, path)

    def _wrong(self, pointer: str, schema: Any, value: object, path: str) -> Iterator[Misfit]:
        if not isinstance(schema, dict):
            yield Misfit(path, "is not allowed here")
            return
        said = False
        for misfit in self._of_keywords(pointer, schema, value, path):
            said = True
            yield misfit
        if not said:
            yield Misfit(path, f"does not fit {_shown(pointer)} of the schema")

    def _of_keywords(
        self, pointer: str, schema: Mapping[str, Any], value: object, path: str
    ) -> Iterator[Misfit]:
        for key, said in schema.items():
            at = f"{pointer}/{escaped(key)}"
            if key in _ALONE:
                yield from self._alone({key: said}, value, path)
            elif key == "$ref" and isinstance(said, str):
                yield from self._below(said[1:], self._at(said), value, path)
            elif key == "allOf" and isinstance(said, list):
                for index, part in enumerate(said):
                    yield from self._below(f"{at}/{index}", part, value, path)
            elif key in ("anyOf", "oneOf") and isinstance(said, list):
                yield from self._alternatives(at, key, said, value, path)
            elif isinstance(value, dict):
                yield from self._of_object(at, key, schema, value, path)
            elif isinstance(value, list) and key in ("items", "prefixItems"):
                yield from self._of_list(at, schema, said, value, path)

    def _of_object(
        self, at: str, key: str, schema: Mapping[str, Any], value: Mapping[str, object], path: str
    ) -> Iterator[Misfit]:
        said = schema[key]
        known = schema.get("properties")
        known = known if isinstance(known, dict) else {}
        if key == "properties":
            for name, part in known.items():
                if name in value:
                    below = f"{at}/{escaped(name)}"
                    yield from self._below(below, part, value[name], f"{path}/{_name(name)}")
        elif key == "additionalProperties" and "patternProperties" not in schema:
            for name in value:
                if name not in known and said is False:
                    yield Misfit(f"{path}/{_name(name)}", "is not a property that is known")
                elif name not in known:
                    yield from self._below(at, said, value[name], f"{path}/{_name(name)}")

    def _of_list(
        self, at: str, schema: Mapping[str, Any], said: Any, value: list[object], path: str
    ) -> Iterator[Misfit]:
        first = (
            len(before)
            if isinstance(before := schema.get("prefixItems"), list) and "/items" in at[-6:]
            else 0
        )
        for index, each in enumerate(value[first:], first):
            if not isinstance(said, list):
                yield from self._below(at, said, each, f"{path}/{index}")
            elif index < len(said):
                yield from self._below(f"{at}/{index}", said[index], each, f"{path}/{index}")

    def _alternatives(self, at: str, key: str, said: list[Any], value: object, path: str) -> Iterator[Misfit]:
        fitting = [index for index in range(len(said)) if self._fits(f"{at}/{index}", value)]
        if fitting:
            if key == "oneOf" and len(fitting) > 1:
                yield Misfit(path, f"fits {len(fitting)} of the alternatives, and has to fit one")
            return
        meant = [index for index, part in enumerate(said) if self._may_be_meant(part, value)]
        if len(meant) == 1:
            yield from self._below(f"{at}/{meant[0]}", said[meant[0]], value, path)
        else:
            types = [part.get("type") for part in map(self._resolved, said) if isinstance(part, dict)]
            named = ", ".join(each for each in types if isinstance(each, str))
            yield Misfit(path, f"fits none of the {len(said)} alternatives{f' ({named})' if named else ''}")

    def _may_be_meant(self, part: Any, value: object) -> bool:
        """Whether a value of this type, and with these words in its constant fields, may stand for this alternative."""
        part = self._resolved(part)
        if not isinstance(part, dict):
            return False
        if "type" in part and any(self._alone({"type": part["type"]}, value, "")):
            return False
        known = part.get("properties")
        if not isinstance(known, dict) or not isinstance(value, dict):
            return True
        for name, schema in known.items():
            rule = (
                {key: schema[key] for key in ("const", "enum") if key in schema}
                if isinstance(schema, dict)
                else {}
            )
            if rule and name in value and any(self._alone(rule, value[name], "")):
                return False
        return True

    def _resolved(self, schema: Any) -> Any:
        for _ in range(limits.DEEPEST):
            if not isinstance(schema, dict) or not isinstance(schema.get("$ref"), str):
                break
            schema = self._at(schema["$ref"])
        return schema

    def _at(self, reference: str) -> Any:
        found: Any = self._root
        for key in keys_of(reference):
            found = found[int(key)] if isinstance(found, list) else found[key]
        return found

    def _alone(self, schema: dict[str, Any], value: object, path: str) -> Iterator[Misfit]:
        validator = self._validator_for(schema, mask=_MASK, **self._options)
        for error in validator.iter_errors(value):
            yield Misfit(path, shortened(str(error.message).removeprefix(f"{_MASK} ")))


def _name(name: str) -> str:
    return escaped(shortened(name))


def _shown(pointer: str) -> str:
    return shortened(pointer) if pointer else "all"
