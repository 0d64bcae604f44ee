"""The messages of a chat-completions request: instructions, the history, and the new turn at its end.

Pure. Knows which messages there may be and where; what is in one is for `history`, which reads it for both surfaces.
`send_message` passes over a malformed row; here it refuses the request, with its place.
"""

from __future__ import annotations

import re
from copy import replace
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from pallas_common.problems import kind_of, quoted
from pallas_worker.interface.chat.fields import json_object, left_out
from pallas_worker.interface.errors import ArgumentError, refuse
from pallas_worker.interface.history import History, LeftOut, parse_content, parse_rows
from pallas_worker.interface.pairing import ends_with_results, paired, pending_calls

if TYPE_CHECKING:
    from pallas_worker.interface.images import Image

MAX_MESSAGES = 10_000
"""Messages of one request."""
MAX_PARTS = 1_000
"""Parts of one message."""

INSTRUCTIONS = ("system", "developer")
"""Roles of messages that are no part of the conversation."""

_FIELDS = {
    "system": ("role", "content"),
    "developer": ("role", "content"),
    "user": ("role", "content", "images"),
    "tool": ("role", "content", "name", "images", "tool_call_id", "is_error"),
    "assistant": (
        *("role", "content", "images", "tool_calls", "pallas"),
        *("refusal", "annotations", "audio", "function_call", "reasoning", "reasoning_content"),
    ),
}
"""Role → what is read of such a message; of answers, which are given back as they came, also what providers put in."""

_PARTS = ("type", "text", "refusal", "image_url", "file", "file_data", "filename")
"""What is read of a part of a message, of whatever kind."""

_ROLES = tuple(_FIELDS)
_PLACE = re.compile(r"[a-z_]+(\[[0-9]+\]|\.[a-z_]+)*")
"""The part of a message that a complaint about it begins with."""

type _Entry = tuple[int, dict[str, object]]


class Conversation(NamedTuple):
    """What the messages of a request say."""

    system: tuple[str, ...] = ()
    """The texts of the instructions, for the end of the agent's own one."""
    history: History = History()
    message: str = ""
    """The new turn of the user; empty where the conversation is gone on with."""
    images: tuple[Image, ...] = ()
    ignored: tuple[str, ...] = ()
    """What was said of messages that no agent reads."""


def conversation_of(value: object, *, resume: bool = False) -> Conversation:
    """What `messages` of a request says.

    Args:
        resume: the history ends with calls that have not run, and there is no new turn.

    Raises:
        ArgumentError: a message is not what OpenAI's reference says, with its place.
    """
    if not isinstance(value, list):
        refuse("messages", f"must be a list of messages, not {kind_of(value)}")
    if not 0 < len(value) <= MAX_MESSAGES:
        refuse("messages", f"has {len(value)} messages; 1 to {MAX_MESSAGES} are allowed")
    system: list[str] = []
    entries: list[_Entry] = []
    ignored: dict[str, None] = {}
    for index, entry in enumerate(value):
        message = _checked(entry, f"messages[{index}]")
        ignored |= dict.fromkeys(_unread(message))
        if message["role"] in INSTRUCTIONS:
            system.append(_instruction(message.get("content"), f"messages[{index}].content"))
        else:
            entries.append((index, message))
    said = _goes_on(entries) if resume else _with_new_turn(entries, len(value) - 1)
    return replace(said, system=tuple(filter(None, system)), ignored=tuple(ignored))


def _checked(entry: object, where: str) -> dict[str, object]:
    """A message whose role there is, and that has not too many parts."""
    message = json_object(entry, where)
    role = message.get("role")
    if role not in _ROLES or not isinstance(role, str):
        said = quoted(role) if isinstance(role, str) else kind_of(role)
        refuse(f"{where}.role", f"must be one of {', '.join(_ROLES)}, not {said}")
    if isinstance(content := message.get("content"), list) and len(content) > MAX_PARTS:
        refuse(f"{where}.content", f"has {len(content)} parts; {MAX_PARTS} are allowed")
    return message


def _unread(message: dict[str, object]) -> list[str]:
    """What a message says that is well-formed, and that no agent reads."""
    # Clients send what they keep of a message: the time, an id, a mark for a provider's cache.
    unread = left_out(message, _FIELDS[str(message["role"])], "messages")
    content = message.get("content")
    for part in content if isinstance(content, list) else ():
        if not isinstance(part, dict):
            continue
        unread += left_out(part, _PARTS, "messages.content")
        match part:
            case {"image_url": {"detail": str() as detail}} if detail != "auto":
                unread.append("messages.content.image_url.detail")
    return unread


def _instruction(value: object, where: str) -> str:
    try:
        content = parse_content(value)
    except ArgumentError as error:
        _refuse_part(where.removesuffix(".content"), str(error))
    if content.images or content.unreadable:
        refuse(where, "is an instruction, and has an image; give it with a message of the user")
    return content.text


def _with_new_turn(entries: list[_Entry], last: int) -> Conversation:
    index, message = entries[-1] if entries else (last, {})
    if message.get("role") == "user":
        (new,) = _history([(index, message)]).rows
        return Conversation(history=_history(entries[:-1]), message=new.content, images=new.images)
    if message.get("role") != "tool":
        refuse(f"messages[{index}]", "is the last one, and has to be the user's new turn or a tool's result")
    history = _history(entries)
    if not ends_with_results(history):
        refuse(f"messages[{index}]", "is the result of no call that stands before it")
    return Conversation(history=history)


def _goes_on(entries: list[_Entry]) -> Conversation:
    history = _history(entries, resume=True)
    if not pending_calls(history):
        refuse("resume", "the messages do not end with tool calls that have not run")
    return Conversation(history=history)


def _history(entries: list[_Entry], *, resume: bool = False) -> History:
    """The rows, of which none is malformed; calls without results and results without calls are left out."""
    silent = [LeftOut(index, "content is empty") for index, message in entries if _says_nothing(message)]
    without = {fault.index for fault in silent}
    read = parse_rows(entry for entry in entries if entry[0] not in without)
    for fault in read.left_out:
        if fault.part != "state":  # which only makes what follows less exact
            _refuse_part(f"messages[{fault.index}]", fault.reason)
    return paired(replace(read, left_out=(*silent, *read.left_out)), resume=resume)


def _says_nothing(message: dict[str, object]) -> bool:
    """Whether it is the answer of a turn that ended without a word, which no provider takes."""
    return message["role"] == "assistant" and not any(
        message.get(name) for name in ("content", "tool_calls", "images")
    )


def _refuse_part(where: str, complaint: str) -> NoReturn:
    """Refuse a message for what is said of one of its parts, such as `content[1] must be …`."""
    place = _PLACE.match(complaint)
    field = f"{where}.{place[0]}" if place is not None else where
    raise ArgumentError(f"{where}.{complaint}", field)
