"""Dataclasses from lines of JSON that others have written: every field is there, and of the type that it says.

Pure; knows the types that messages between our processes are made of, and nothing of what they mean.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import types
import typing
from typing import TYPE_CHECKING, Any, Literal, Union

from pallas_common.problems import shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LARGEST_INTEGER = 2**53
"""What JSON's readers agree on (RFC 8259, section 6), and more than anything that is counted here."""


def read_object(line: bytes) -> dict[str, Any]:
    """The JSON object in one line.

    Raises:
        ValueError: there is none, or it is nested too deep.
    """
    try:
        value = json.loads(line)
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not isinstance(value, dict):
        raise ValueError(f"{_quoted(value)} is no object")  # noqa: TRY004 - a value as well
    return value


def build[T](kind: type[T], value: object, where: str = "") -> T:
    """A dataclass, made of a JSON object with its fields.

    Numbers are finite, and texts are such as UTF-8 can say: half a surrogate pair becomes a question mark.

    Raises:
        ValueError: something is missing, unknown or of another type; the message says what and where.
    """
    if not isinstance(value, dict):
        raise ValueError(f"{where or kind.__name__}: {_quoted(value)} is no object")  # noqa: TRY004
    known = _fields(typing.cast("typing.Hashable", kind))
    if unknown := value.keys() - known.keys():
        raise ValueError(f"{where}{_quoted(min(unknown))} is unknown")
    if missing := known.keys() - value.keys():
        raise ValueError(f"{where}{min(missing)} is missing")
    return kind(**{name: _typed(known[name], item, f"{where}{name}") for name, item in value.items()})


@functools.cache
def _fields(kind: typing.Hashable) -> dict[str, Any]:
    """The types of a dataclass's fields."""
    return typing.get_type_hints(kind)


def _typed(kind: Any, value: object, where: str) -> object:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        [inner] = (each for each in arguments if each is not types.NoneType)
        return None if value is None else _typed(inner, value, where)
    if dataclasses.is_dataclass(kind):
        return build(typing.cast("type[object]", kind), value, f"{where}.")
    if origin is tuple and isinstance(value, list):
        return tuple(_typed(arguments[0], item, f"{where}[{at}]") for at, item in enumerate(value))
    if origin is Literal and isinstance(value, str) and value in arguments:
        return value
    made = _SIMPLE[kind](value) if kind in _SIMPLE else None
    if made is None:
        raise ValueError(f"{where}: {_quoted(value)} is not {_name(kind)}")
    return made


def _boolean(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _text(value: object) -> str | None:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else None


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and _is_countable(value) else None


def _number(value: object) -> float | None:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return float(value) if isinstance(value, int) and _is_countable(value) else None


def _is_countable(value: int) -> bool:
    return not isinstance(value, bool) and abs(value) <= LARGEST_INTEGER


_SIMPLE: Mapping[Any, Callable[[object], object]] = {
    bool: _boolean,
    str: _text,
    int: _integer,
    float: _number,
}
"""What makes a value of the type, or None of what is no such value."""


def _name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind).replace("typing.", "")


def _quoted(value: object) -> str:
    """What was found there, in a few characters."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return shortened(repr(value))
