"""Figures and words as the page writes them. Pure."""

from __future__ import annotations

_NARROW_SPACE = "\u202f"
_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def rate(value: float) -> str:
    """A number per minute: `0`, `0.4`, `12`, `1 240`."""
    if value == 0:
        return "0"
    if value < 10:
        return f"{value:.1f}" if value >= 0.05 else "<0.1"
    return whole(round(value))


def whole(value: float) -> str:
    """A count with its thousands apart."""
    return f"{round(value):,}".replace(",", _NARROW_SPACE)


def compact(value: float) -> str:
    """A large count in three digits: `840`, `12.3 k`, `4.56 M`."""
    for unit, letter in _UNITS:
        if value >= unit * 0.9995:
            return f"{value / unit:.3g}{_NARROW_SPACE}{letter}"
    return f"{value:.0f}"


def memory(size: int | None) -> str:
    """Bytes as people say them: `83 MiB`, `1.24 GiB`; a dash where there is no process."""
    if size is None:
        return "–"
    mebibytes = size / 2**20
    if mebibytes < 1000:
        return f"{mebibytes:.0f} MiB"
    return f"{mebibytes / 1024:.2f} GiB"


def milliseconds(seconds: float) -> str:
    """A short time: `14 ms`, `<1 ms`."""
    return f"{whole(seconds * 1000)} ms" if seconds >= 0.001 else "<1 ms"


def several(count: int, noun: str) -> str:
    """`1 agent`, `3 agents`."""
    return f"{whole(count)} {noun}" if count == 1 else f"{whole(count)} {noun}s"


def more(count: int, shown: int) -> str | None:
    """`and 12 more`, if not all of so many are shown."""
    return f"and {whole(count - shown)} more" if count > shown else None
