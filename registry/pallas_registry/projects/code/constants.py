"""Python expressions whose value can be read without running anything: texts, numbers, lists, paths of the project.

Pure. Everything else is `UNKNOWN`. Values are bounded: a few lines of code can name a text of gigabytes.
"""

from __future__ import annotations

import ast
import inspect
import posixpath
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_CHARACTERS = 20_000
MOST_ITEMS = 1_000
MAXIMUM_DEPTH = 60
MOST_BITS = 64
"""Of a number: Python refuses to write one with thousands of digits, which a hexadecimal literal may have."""


MOST_KEPT = 64 << 20
"""Of all files of a project together, about in bytes."""
_COST = 100
"""Bytes of a name with a value that has none of its own."""


class Unknown:
    """What only running the code would tell."""

    def __bool__(self) -> bool:
        return False


UNKNOWN: Final = Unknown()

type Value = object
"""A text, a number, a truth value, None, a list or a mapping of such, or UNKNOWN. A path is a text."""


class Room:
    """What is left of the memory for all that is known of a project: names that are imported, and put together."""

    def __init__(self, size: int = MOST_KEPT) -> None:
        self._left = size

    def take(self, value: Value = None) -> bool:
        """Take the room of one more name with this value; whether there was enough."""
        self._left -= _COST + (len(value) if isinstance(value, str | list | dict) else 0)
        return self._left >= 0


def fold(node: ast.expr | None, names: Mapping[str, Value], file: str, depth: int = 0) -> Value:
    """The value of an expression.

    Args:
        names: values by name; attributes of classes as `Class.attribute`.
        file: the path of the module, relative to the project's folder: what `__file__` says.
    """
    if node is None or depth > MAXIMUM_DEPTH:
        return UNKNOWN

    def inner(part: ast.expr | None) -> Value:
        return fold(part, names, file, depth + 1)

    match node:
        case ast.Constant(value=str() | int() | None as value):
            return _bounded(value)
        case ast.Name(id="__file__"):
            return file
        case ast.Name(id=name):
            return names.get(name, UNKNOWN)
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            return _bounded([inner(item) for item in items[:MOST_ITEMS]])
        case ast.Dict(keys=keys, values=values):
            pairs = zip(keys[:MOST_ITEMS], values, strict=False)
            return {key: inner(value) for made, value in pairs if isinstance(key := inner(made), str)}
        case ast.Attribute(value=ast.Name(id=name), attr=attribute) if f"{name}.{attribute}" in names:
            return names[f"{name}.{attribute}"]
        case ast.Call(func=function, args=arguments):
            return _call(function, [inner(each) for each in arguments[:20]], inner)
    return _of_parts(node, inner)


def _of_parts(node: ast.expr, inner: Callable[[ast.expr | None], Value]) -> Value:
    """The value of an expression that puts together, or takes apart, the values of its parts."""
    match node:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _sum(inner(left), inner(right))
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return _path(inner(left), inner(right))
        case ast.JoinedStr(values=parts):
            return _joined([inner(part) for part in parts])
        case ast.FormattedValue(value=part, conversion=-1, format_spec=None):
            return inner(part)
        case ast.Subscript(value=of, slice=key):
            return _item(inner(of), inner(key))
        case ast.Attribute(value=of, attr="parent"):
            return _parent(inner(of))
        case ast.Attribute(value=of, attr="value"):  # of a member of an Enum
            return inner(of)
    return UNKNOWN


def text(value: Value) -> str | None:
    """The value, if it is a text."""
    return value if isinstance(value, str) else None


def texts(value: Value) -> tuple[str, ...]:
    """The texts in a list, or the one text."""
    if isinstance(value, str):
        return (value,)
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def _call(function: ast.expr, arguments: list[Value], inner: Callable[[ast.expr | None], Value]) -> Value:
    """What the few functions give that sources use to write texts and paths."""
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    first = arguments[0] if arguments else UNKNOWN
    if name in {"Path", "join"} and arguments:
        joined: Value = first
        for each in arguments[1:]:
            joined = _path(joined, each)
        return joined
    if name in {"str", "abspath", "realpath", "expanduser"} and len(arguments) == 1:
        return first
    if name == "dirname":
        return _parent(first)
    if name in {"dedent", "cleandoc"} and isinstance(first, str):
        return inspect.cleandoc(first)
    if isinstance(function, ast.Attribute):
        of = inner(function.value)
        if name in {"resolve", "absolute", "as_posix"}:
            return of
        if name in {"strip", "lower", "upper"} and isinstance(of, str) and not arguments:
            return str(getattr(of, name)())
    return UNKNOWN


def _bounded(value: Value) -> Value:
    if isinstance(value, str) and len(value) > MOST_CHARACTERS:
        return UNKNOWN
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        return UNKNOWN
    if isinstance(value, list) and len(value) > MOST_ITEMS:
        return UNKNOWN
    return value


def _joined(parts: list[Value]) -> Value:
    known = [str(part) for part in parts if isinstance(part, str | int)]
    if len(known) < len(parts) or sum(map(len, known)) > MOST_CHARACTERS:
        return UNKNOWN
    return "".join(known)


def _sum(left: Value, right: Value) -> Value:
    if isinstance(left, str) and isinstance(right, str):
        return _bounded(left + right)
    if isinstance(left, list) and isinstance(right, list) and len(left) + len(right) <= MOST_ITEMS:
        return [*left, *right]
    return UNKNOWN


def _path(left: Value, right: Value) -> Value:
    if isinstance(left, str) and isinstance(right, str):
        return _bounded(posixpath.normpath(posixpath.join(left, right)))
    return UNKNOWN


def _parent(value: Value) -> Value:
    return (posixpath.dirname(value) or ".") if isinstance(value, str) else UNKNOWN


def _item(of: Value, key: Value) -> Value:
    if isinstance(of, Mapping) and isinstance(key, str):
        return of.get(key, UNKNOWN)
    if isinstance(of, list) and isinstance(key, int) and -len(of) <= key < len(of):
        return of[key]
    return UNKNOWN
