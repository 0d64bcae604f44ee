"""JSON that others have written: read within bounds, so that what is read can be written again by any writer.

Pure, and the one place where that is decided: for bodies of requests, for what a model says, for what a store gives
back. Python's own reader takes `NaN`, makes infinity of `1e999`, and passes half of a surrogate pair.
"""

from __future__ import annotations

import json
import math
import re
from typing import NoReturn

MOST_VALUES = 100_000
"""Lists, objects and their entries of a text: those of the longest conversation. More of them would hold the loop."""
DEEPEST = 128
"""Lists and objects inside each other."""

_LONGEST_WHOLE = 308
"""Digits of a whole number that is a double in any case."""
_MAYBE_HALF = re.compile(r"\\u[dD]")
_UNKEPT = re.compile("[\x00\ud800-\udfff]")
_QUOTE = ord('"')
_TOKENS = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[\[{,]', re.DOTALL)
"""A string, which may lack its end, or a mark that begins a value."""


def read_json(text: str | bytes) -> object:
    """The value in a JSON text, whose bytes are UTF-8.

    Raises:
        json.JSONDecodeError: it is not JSON.
        UnicodeError: it has half of a surrogate pair, or bytes that are not UTF-8.
        ValueError: it has a number that is none of JSON, or none that a double can hold.
        RecursionError: it is nested too deep.
    """
    text = text if isinstance(text, str) else text.decode()
    value = parse_json(text)
    text.encode()
    if _MAYBE_HALF.search(text):
        json.dumps(value, ensure_ascii=False).encode()
    return value


def parse_json(text: str | bytes) -> object:
    """The same, in which halves of surrogate pairs stay.

    Raises:
        json.JSONDecodeError, UnicodeDecodeError, ValueError, RecursionError: as `read_json`.
    """
    # Decoded here: json.loads, given bytes, would read UTF-16, too, in which nobody has counted anything.
    return _DECODER.decode(text if isinstance(text, str) else text.decode())


class TooManyValuesError(ValueError):
    """A text of JSON has more than `MOST_VALUES`."""


class TooDeepError(ValueError):
    """A text of JSON has more than `DEEPEST` lists and objects inside each other."""


def read_bounded(body: bytes) -> object:
    """The value that the body of a request is, as `read_json` reads it.

    Raises:
        TooManyValuesError, TooDeepError: it is larger than is read.
        ValueError: as `read_json`.
    """
    value = parse_bounded(body)
    if b"\\u" in body and _MAYBE_HALF.search(body.decode()):
        json.dumps(value, ensure_ascii=False).encode()
    return value


def parse_bounded(body: bytes) -> object:
    """The same, in which halves of surrogate pairs stay.

    Raises:
        TooManyValuesError, TooDeepError, ValueError: as `read_bounded`.
    """
    if has_too_many_values(body):
        raise TooManyValuesError(f"more than {MOST_VALUES} values")
    try:
        value = parse_json(body)
    except RecursionError:
        raise _TOO_DEEP from None
    if body.count(b"[") + body.count(b"{") > DEEPEST and _is_too_deep(value):
        raise _TOO_DEEP
    return value


def has_too_many_values(body: bytes) -> bool:
    """Whether a text of JSON has more than `MOST_VALUES`: commas and brackets outside of strings, and strings.

    In one pass and constant space, for a body is as large as it may be, and may be no JSON at all.
    """
    if len(body) <= MOST_VALUES or body.count(b"[") + body.count(b"{") + body.count(b",") <= MOST_VALUES:
        return False
    values = strings = 0
    for token in _TOKENS.finditer(body):
        if body[token.start()] == _QUOTE:
            strings += 1
        else:
            values += 1
        if values > MOST_VALUES or strings > 2 * MOST_VALUES:
            return True
    return False


def depth_and_size(value: object) -> tuple[int, int]:
    """Levels of lists and mappings within each other, and how many values and keys there are."""
    deepest, size = 0, 0
    waiting: list[tuple[int, object]] = [(0, value)]
    while waiting:
        depth, each = waiting.pop()
        size += 1
        deepest = max(deepest, depth)
        if isinstance(each, dict):
            size += len(each)
            waiting += [(depth + 1, below) for below in each.values()]
        elif isinstance(each, list):
            waiting += [(depth + 1, below) for below in each]
    return deepest, size


def _is_too_deep(value: object) -> bool:
    level = [value]
    for _ in range(DEEPEST):
        level = [
            inner
            for outer in level
            if isinstance(outer, (dict, list))
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True


def is_number_of_json(value: float) -> bool:
    """Whether a double can hold the number, whole or not."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def whole_text(text: str) -> str:
    """The text in characters that everybody takes: U+FFFD for NUL, and for half of a surrogate pair.

    No UTF-8 has such a half, and PostgreSQL keeps no NUL. Two halves that make a pair are the character that they
    stand for: some servers cut what a model says between them.
    """
    if text.isascii() and "\x00" not in text:
        return text
    if _UNKEPT.search(text) is None:
        return text
    paired = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return paired.replace("\x00", "\ufffd")


def whole_value(value: object) -> object:
    """A value of JSON whose texts and keys are all `whole_text`.

    Raises:
        RecursionError: it is nested too deep.
    """
    match value:
        case str():
            return whole_text(value)
        case dict():
            return {
                whole_text(key) if isinstance(key, str) else key: whole_value(each)
                for key, each in value.items()
            }
        case list() | tuple():
            return [whole_value(each) for each in value]
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError("a number is too large")
    return number


def _whole(digits: str) -> int:
    if len(digits) > _LONGEST_WHOLE:
        _finite(digits)  # else Python's limit of digits would be the one
    return int(digits)


_TOO_DEEP = TooDeepError(f"more than {DEEPEST} lists and objects inside each other")
_DECODER = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite, parse_int=_whole)
