"""JSON that others have written, as JSON defines it: what is read can be written again, by any writer.

Pure. Python's own reader takes `NaN`, makes infinity of `1e999`, and passes half of a surrogate pair.
"""

from __future__ import annotations

import json
import math
import re

_MAYBE_HALF = re.compile(r"\\u[dD]")


def read_json(text: str) -> object:
    """The value in a JSON text.

    Raises:
        json.JSONDecodeError: it is not JSON.
        UnicodeEncodeError: it has half of a surrogate pair.
        ValueError: it has a number that JSON does not have, or one of too many digits.
        RecursionError: it is nested too deep.
    """
    value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    text.encode()
    if _MAYBE_HALF.search(text):
        json.dumps(value, ensure_ascii=False).encode()
    return value


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


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no number of JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError("a number is too large")
    return number
