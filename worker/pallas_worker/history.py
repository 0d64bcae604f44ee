"""The conversation so far, as the client replays it: good rows kept, malformed ones skipped one by one.

Pure. Knows the shape of a row; must not know models, nor log: the caller does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pallas_worker.errors import ArgumentError
from pallas_worker.images import Image, parse_images

Role = Literal["user", "assistant"]


@dataclass(frozen=True, slots=True)
class Row:
    """One earlier message of the conversation."""

    role: Role
    content: str
    images: tuple[Image, ...] = ()
    index: int = field(default=0, compare=False)
    """Its place in the argument, from 0."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A malformed row: its index in the argument, from 0, and why it was skipped."""

    index: int
    reason: str


def parse_history(value: object) -> tuple[tuple[Row, ...], tuple[Skipped, ...]]:
    """The good rows in their order, and the malformed ones; None is an empty history.

    Raises:
        ArgumentError: the value is not a list at all.
    """
    if value is None:
        return (), ()
    if not isinstance(value, list):
        raise ArgumentError("history must be a list of objects with role and content")
    rows: list[Row] = []
    skipped: list[Skipped] = []
    for index, entry in enumerate(value):
        try:
            rows.append(_parse_row(entry, index))
        except ArgumentError as error:
            skipped.append(Skipped(index, str(error)))
    return tuple(rows), tuple(skipped)


def _parse_row(entry: object, index: int) -> Row:
    if not isinstance(entry, Mapping):
        raise ArgumentError("a row must be an object with role and content")
    role: Role
    match entry.get("role"):
        case "user":
            role = "user"
        case "assistant":
            role = "assistant"
        case other:
            raise ArgumentError(f'role must be "user" or "assistant", not {_shown(other)}')
    content = entry.get("content")
    if not isinstance(content, str):
        raise ArgumentError(f"content must be a string, not {_shown(content)}")
    images = parse_images(entry.get("images"))
    if not content and not images:
        # Providers refuse a message without any content, and the whole conversation with it.
        raise ArgumentError("content is empty and there are no images")
    return Row(role, content, images, index)


def _shown(value: object) -> str:
    """The value, short enough for one line of a log."""
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
