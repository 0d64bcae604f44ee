"""The conversation so far, as the client replays it: good rows kept, what is malformed left out.

Pure. Knows the shape of a row, of `send_message` and of chat completions alike; must not know models, nor log: the
caller does. Whether calls and results belong together is for `pairing`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from pallas_common.problems import shortened
from pallas_common.protocol.agent.images import MAX_IMAGES
from pallas_worker.interface.errors import ArgumentError
from pallas_worker.interface.images import Image, parse_data_url, readable_images
from pallas_worker.interface.parts import part_text
from pallas_worker.interface.tool_calls import (
    Budget,
    ToolCall,
    parse_call_id,
    parse_channels,
    readable_calls,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

type Role = Literal["user", "assistant", "tool"]

type Part = Literal["row", "images", "calls", "state"]
"""What is left out: the whole row, or of a good one some images, some tool calls, or what its provider needs again."""

MAX_NAMED = 50
"""Malformed rows of one history of which each is named; of the others there is a count."""


@dataclass(frozen=True, slots=True)
class Row:
    """One earlier message of the conversation."""

    role: Role
    content: str
    """Its text; that of a tool's result in the words in which the model gets it."""
    images: tuple[Image, ...] = ()
    index: int = field(default=0, compare=False)
    """Its place in the argument, from 0."""
    unreadable: int = 0
    """Malformed images that it has lost."""
    calls: tuple[ToolCall, ...] = ()
    """The tools that the assistant calls with it, in their order."""
    call_id: str = ""
    """The call whose result a row of role `tool` is."""
    is_error: bool = False
    """Whether that call has failed."""
    parts: tuple[str | Image, ...] = ()
    """The texts and images of a result in their order, where `content` alone does not say it."""
    channels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What the model's provider needs again to go on exactly, as the turn's end said it; from the client, so that it
    may be anything."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What is malformed, or without its counterpart; the row's index in the argument, from 0."""

    index: int
    reason: str
    part: Part = "row"


class History(NamedTuple):
    """A history as far as it can be used."""

    rows: tuple[Row, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    """The first `MAX_NAMED` of what is left out."""
    more: int = 0
    """How many there are beyond those."""


def parse_history(value: object) -> History:
    """The good rows in their order, and what is malformed; None is an empty history.

    Raises:
        ArgumentError: the value is not a list at all.
    """
    if value is None:
        return History()
    if not isinstance(value, list):
        raise ArgumentError("history must be a list of objects with role and content")
    return parse_rows(enumerate(value))


def parse_rows(entries: Iterable[tuple[int, object]]) -> History:
    """The same of rows that know their places."""
    rows: list[Row] = []
    faults: list[LeftOut] = []
    budget = Budget()
    for index, entry in entries:
        try:
            row, of_row = _parse_row(entry, index, budget)
            rows.append(row)
            faults += of_row
        except ArgumentError as error:
            faults.append(LeftOut(index, str(error)))
    faults.sort(
        key=lambda fault: fault.part == "state"
    )  # the least of them, and it shall not hide the others
    return History(tuple(rows), tuple(faults[:MAX_NAMED]), len(faults[MAX_NAMED:]))


class Content(NamedTuple):
    """The content of a message: what can be used of it, and what is wrong with the first image that cannot."""

    text: str = ""
    images: tuple[Image, ...] = ()
    parts: tuple[str | Image, ...] = ()
    """Both in their order."""
    unreadable: int = 0
    reason: str | None = None


def parse_content(value: object, *, nullable: bool = False) -> Content:
    """The content of a message: a string, or a list of parts, of which those are known that have text or an image.

    Clients of OpenAI's have many shapes for both: those of Responses, strings alone, files of text.

    Raises:
        ArgumentError: it is neither, or has a part of another kind.
    """
    if isinstance(value, str):
        return Content(value, (), (value,) if value else ())
    if value is None and nullable:
        return Content()
    if not isinstance(value, list):
        raise ArgumentError(f"content must be a string, not {_shown(value)}")
    parts: list[str | Image] = []
    reason: str | None = None
    unreadable = images = 0
    for index, entry in enumerate(value):
        where = f"content[{index}]"
        if (url := _image_url(entry)) is not None:
            image, fault = _parse_image_url(*url, where, images)
            images += 1
            parts += [] if image is None else [image]
            unreadable += image is None
            reason = reason or fault
        elif text := part_text(entry, where):
            parts.append(text)
    text = "\n\n".join(part for part in parts if isinstance(part, str))
    return Content(
        text, tuple(part for part in parts if isinstance(part, Image)), tuple(parts), unreadable, reason
    )


def _image_url(part: object) -> tuple[object, str] | None:
    """The URL of a part that is an image, and where in the part it stands; None where it is none."""
    match part:
        case {"type": "image_url", "image_url": {"url": url}}:
            return url, "image_url.url"
        case {"type": "image_url" | "input_image", "image_url": url}:
            return url, "image_url"
    return None


def _parse_image_url(url: object, place: str, where: str, before: int) -> tuple[Image | None, str | None]:
    """The image of a part that has so many others before it, or what is wrong with it."""
    if before >= MAX_IMAGES:
        return None, f"{where} is one image too many: {MAX_IMAGES} are allowed in one message"
    try:
        return parse_data_url(url, f"{where}.{place}"), None
    except ArgumentError as error:
        return None, str(error)


def _parse_row(entry: object, index: int, budget: Budget) -> tuple[Row, Sequence[LeftOut]]:
    """A row without what of it is malformed, and what is wrong with that.

    Raises:
        ArgumentError: nothing of the row can be used.
    """
    if not isinstance(entry, Mapping):
        raise ArgumentError("a row must be an object with role and content")
    match entry.get("role"):
        case "user":
            return _parse_message("user", entry, index, budget)
        case "assistant":
            return _parse_message("assistant", entry, index, budget)
        case "tool":
            return _parse_result(entry, index)
        case other:
            raise ArgumentError(f'role must be "user", "assistant" or "tool", not {_shown(other)}')


def _parse_message(
    role: Literal["user", "assistant"], entry: Mapping[str, object], index: int, budget: Budget
) -> tuple[Row, Sequence[LeftOut]]:
    faults: list[LeftOut] = []
    calls, calls_reason = readable_calls(entry.get("tool_calls") if role == "assistant" else None, budget)
    content = parse_content(entry.get("content"), nullable=bool(calls) or calls_reason is not None)
    images, unreadable, images_reason = readable_images(entry.get("images"))
    images = (*content.images, *images)
    unreadable += content.unreadable
    images_reason = content.reason or images_reason
    if not content.text and not images and not calls:
        # Providers refuse a message without any content, and the whole conversation with it.
        raise ArgumentError(images_reason or calls_reason or "content is empty and there are no images")
    if images_reason is not None:
        faults.append(LeftOut(index, images_reason, "images"))
    if calls_reason is not None:
        faults.append(LeftOut(index, calls_reason, "calls"))
    channels: Mapping[str, tuple[str, ...]] = {}
    try:
        channels = parse_channels(entry.get("pallas")) if role == "assistant" else {}
    except ArgumentError as error:
        faults.append(LeftOut(index, str(error), "state"))
    if calls_reason is not None:
        channels = {}  # they speak of the calls that are left out as well
    return Row(role, content.text, images, index, unreadable, calls, channels=channels), faults


def _parse_result(entry: Mapping[str, object], index: int) -> tuple[Row, Sequence[LeftOut]]:
    """A result may be without content: a call has to have one, and some tools say nothing."""
    call_id = parse_call_id(entry.get("tool_call_id"), "tool_call_id")
    content = parse_content(entry.get("content"), nullable=True)
    is_error = entry.get("is_error", False)
    if not isinstance(is_error, bool):
        raise ArgumentError(f"is_error must be true or false, not {_shown(is_error)}")
    images, unreadable, reason = readable_images(entry.get("images"))
    row = Row(
        "tool",
        "\n".join(part for part in content.parts if isinstance(part, str)),
        (*content.images, *images),
        index,
        content.unreadable + unreadable,
        call_id=call_id,
        is_error=is_error,
        parts=(*content.parts, *images),
    )
    reason = content.reason or reason
    return row, () if reason is None else (LeftOut(index, reason, "images"),)


def _shown(value: object) -> str:
    """The value, short enough for one line of a log."""
    return shortened(repr(value))
