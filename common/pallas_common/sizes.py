"""Amounts of memory as people write and read them. Pure."""

from __future__ import annotations

import re
from fractions import Fraction

_FACTORS = {
    "": 1,
    "b": 1,
    **{f"{prefix}b": 1000**power for power, prefix in enumerate("kmgt", 1)},
    **{f"{prefix}ib": 1024**power for power, prefix in enumerate("kmgt", 1)},
}
_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?) ?([a-z]*)", re.IGNORECASE)
_STEPS = (("TiB", 1024**4), ("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024))


def parse_size(text: str) -> int | None:
    """Bytes of `512MiB`, `2 GB`, `1.5GiB` or `536870912`; None if it is no such text.

    `kB`, `MB`, … count in thousands and `KiB`, `MiB`, … in 1024s, in upper or lower case.
    """
    match = _SIZE.fullmatch(text)
    if match is None or (factor := _FACTORS.get(match[2].lower())) is None:
        return None
    return int(Fraction(match[1]) * factor)


def is_ambiguous_size(text: str) -> bool:
    """Whether the text is a size that leaves open whether it counts in thousands or in 1024s, as in `512M`."""
    match = _SIZE.fullmatch(text)
    return match is not None and match[2].lower() in tuple("kmgt")


def describe_size(size: int) -> str:
    """Bytes as people read them: `512 MiB`, `1.5 GiB`, `300 bytes`."""
    for unit, step in _STEPS:
        if size >= step:
            return (
                f"{round(size / step, 1):g} {unit}" if size < 100 * step else f"{round(size / step)} {unit}"
            )
    return f"{size} bytes"
