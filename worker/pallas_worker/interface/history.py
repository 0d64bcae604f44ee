"""The conversation so far, as the client replays it: good rows kept, what is malformed left out.

Pure. Knows the shape of a row; must not know models, nor log: the caller does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from pallas_worker.interface.errors import ArgumentError
from pallas_worker.interface.images import Image, readable_images

Role = Literal["user", "assistant"]

MAX_NAMED = 50
"""Malformed rows of one history of which each is named; of the others there is a count."""


@dataclass(frozen=True, slots=True)
class Row:
    """One earlier message of the conversation."""

    role: Role
    content: str
    images: tuple[Image, ...] = ()
    index: int = field(default=0, compare=False)
    """Its place in the argument, from 0."""
    unreadable: int = 0
    """Malformed images that it has lost."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What is malformed: a whole row, or images of a row whose text is good; its index in the argument, from 0."""

    index: int
    reason: str
    images_only: bool = False


class History(NamedTuple):
    """A history as far as it can be used."""

    rows: tuple[Row, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    """The first `MAX_NAMED` of what is malformed."""
    more: int = 0
    """How many malformed rows there are beyond those."""


def parse_history(value: object) -> History:
    """The good rows in their order, and what is malformed; None is an empty history.

    Raises:
        ArgumentError: the value is not a list at all.
    """
    if value is None:
        return History()
    if not isinstance(value, list):
        raise ArgumentError("history must be a list of objects with role and content")
    rows: list[Row] = []
    left_out: list[LeftOut] = []
    more = 0
    for index, entry in enumerate(value):
        fault: LeftOut | None = None
        try:
            row, reason = _parse_row(entry, index)
            rows.append(row)
            if reason is not None:
                fault = LeftOut(index, reason, images_only=True)
        except ArgumentError as error:
            fault = LeftOut(index, str(error))
        if fault is not None and len(left_out) < MAX_NAMED:
            left_out.append(fault)
        elif fault is not None:
            more += 1
    return History(tuple(rows), tuple(left_out), more)


def _parse_row(entry: object, index: int) -> tuple[Row, str | None]:
    """A row without those of its images that are malformed, and what is wrong with the first of them.

    Raises:
        ArgumentError: nothing of the row can be used.
    """
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
    images, left_out, reason = readable_images(entry.get("images"))
    if not content and not images:
        # Providers refuse a message without any content, and the whole conversation with it.
        raise ArgumentError(reason or "content is empty and there are no images")
    return Row(role, content, images, index, left_out), reason


def _shown(value: object) -> str:
    """The value, short enough for one line of a log."""
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
