"""A conversation as text and as JSON, for a file; and its last messages, for a person who comes back to it. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pallas_common.problems import counted, shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pallasctl.verbs.talk.backends.backend import Json

SHOWN = 6
"""Messages of a thread that are shown when it is resumed."""
REPLACED = "replaced by a later answer"
"""What the gateway says of the messages of a turn that was taken again."""
_LINES = 8
_LONGEST = 400
"""Lines and characters of each."""


def as_text(agent: str, rows: Sequence[Json]) -> str:
    """For people: who said what."""
    return "\n".join(block for row in rows for block in _blocks(agent, row))


def as_json(rows: Sequence[Json]) -> str:
    """For programs: the rows, as `messages` of chat completions or `history` of `send_message` take them."""
    return json.dumps(rows, indent=2, ensure_ascii=False) + "\n"


def turns(rows: Sequence[Json]) -> int:
    """How many turns there are."""
    return sum(row.get("role") == "user" for row in rows)


def last_messages(messages: Iterable[Json], agent: str) -> tuple[list[str], bool]:
    """The end of a thread, and whether a turn of it is under way.

    Returns:
        Lines; whether the last turn is pending, whose answer is not among them.
    """
    said: list[list[str]] = []
    passed, is_pending = 0, False
    for message in messages:
        is_pending = message.get("status") == "pending" or (is_pending and message.get("role") != "user")
        role, content = message.get("role"), message.get("content")
        if role not in ("user", "assistant") or not isinstance(content, str):
            continue
        if role == "assistant" and (not content.strip() or is_pending):
            continue
        if message.get("status") == "error" and message.get("error") == REPLACED:
            continue
        said.append(_excerpt(message, content, agent))
        if len(said) > SHOWN:
            del said[0]
            passed += 1
    before = [f"({counted(passed, 'earlier message')}: /save FILE writes all of them)"] if passed else []
    return [*before, *(line for each in said for line in each)], is_pending


def _excerpt(message: Mapping[str, Any], content: str, agent: str) -> list[str]:
    who = "> " if message["role"] == "user" else f"{agent}: "
    lines = shortened(content.strip(), _LONGEST).splitlines() or [""]
    more = ["…"] if len(lines) > _LINES else []
    found = [who + lines[0] + _images(message.get("parts")), *lines[1:_LINES], *more]
    if message.get("status") == "error":
        found.append(f"({shortened(str(message.get('error') or 'failed'), 200)})")
    return found


def _blocks(agent: str, row: Json) -> Iterator[str]:
    role, content = row.get("role"), row.get("content")
    text = _text(content) + _images(row.get("images") or content)
    if role == "user":
        yield f"you: {text}\n"
    elif role == "assistant":
        if text:
            yield f"{agent}: {text}\n"
        calls = row.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            match call:
                case {"function": {"name": str(name), "arguments": str(arguments)}}:
                    yield f"[{name} {arguments}]\n"
    elif role == "tool":
        yield f"[{'failed' if row.get('is_error') else 'result'}: {text}]\n"


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n\n".join(part["text"] for part in parts if isinstance(part.get("text"), str))


def _images(parts: object) -> str:
    """What stands for the images of a message: of `send_message`, or of chat completions."""
    found = ""
    for part in parts if isinstance(parts, list) else ():
        match part:
            case {"mime_type": str(kind)}:
                found += f" [{kind}]"
            case {"image_url": {"url": str(url)}}:
                found += f" [{url.removeprefix('data:').partition(';')[0][:40]}]"
    return found
