"""What the gateway's REST API says of turns, threads and messages, as values of ours. Pure.

The shapes are those of docs/conversations.md; fields that are missing or of another type are passed over, as a gateway
of another version may have others.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pallas_common.protocol.agent.incomplete import SENTENCES, read_reason
from pallas_control.mcp.errors import CallError, WrongAnswerError
from pallas_control.mcp.messages import parse_object
from pallasctl.verbs.talk.backends.backend import Aside, Reset, Result, Text, ThreadInfo, ToolCall, ToolResult

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pallasctl.verbs.talk.backends.backend import Happened, Json

DONE = b"[DONE]"
LONGEST_TITLE = 80
LONGEST_ID = 64


class TurnFailedError(CallError):
    """The turn is over without an answer."""

    kind = "agent"


def read_chunk(data: bytes, said: str) -> Happened | None:
    """What one event of a stream says; None for a kind that is not known.

    Args:
        said: the text of the answer so far.

    Raises:
        TurnFailedError: it says that the turn has failed.
        WrongAnswerError: it is no JSON object.
    """
    match parse_object(data):
        case {"type": "text", "delta": str(delta)}:
            return Text(delta)
        case {"type": "reset", "characters": int(characters)} if characters > 0:
            return Reset(characters)
        case {"type": "tool_call", "toolName": str(tool), **rest}:
            return ToolCall(tool, rest.get("args"))
        case {"type": "tool_result", "toolName": str(tool), **rest}:
            return ToolResult(tool, rest.get("ok") is True)
        case {"type": "final", "threadId": str(thread), "turnIndex": int(index)}:
            return Result(said, thread=thread, turn_index=index)
        case {"type": "error", **rest}:
            message = rest.get("message")
            raise TurnFailedError(message if isinstance(message, str) else "the turn has failed")
        case None:
            raise WrongAnswerError("what came is no event of the gateway")
    return None


def read_ending(document: Mapping[str, Any]) -> Iterator[Happened]:
    """Why an answer, or the end of a stream, is not a whole one; nothing where it is, and of what is no end."""
    if (reason := read_reason(document.get("reason"))) is not None:
        yield Aside(SENTENCES[reason])


def read_result(document: Json) -> Result:
    """A whole answer.

    Raises:
        WrongAnswerError: it is none.
    """
    match document:
        case {"threadId": str(thread), "turnIndex": int(index), "content": str(content), **rest}:
            calls, usage = rest.get("toolCalls"), rest.get("usage")
            return Result(
                content,
                tool_calls=[each for each in calls if isinstance(each, dict)]
                if isinstance(calls, list)
                else [],
                usage=usage if isinstance(usage, dict) else None,
                thread=thread,
                turn_index=index,
            )
    raise WrongAnswerError("what came is no answer of the gateway")


def read_thread(document: object) -> ThreadInfo:
    """A thread.

    Raises:
        WrongAnswerError: it is none.
    """
    match document:
        case {"id": str(id_), **rest} if is_thread_id(id_):
            title, last = rest.get("title"), rest.get("lastTurnAt")
            return ThreadInfo(
                id_, title if isinstance(title, str) else "", last if isinstance(last, str) else None
            )
    raise WrongAnswerError("what came is no thread of the gateway")


def is_thread_id(text: str) -> bool:
    """Whether a text can be the id of a thread, and stand in a path."""
    return 0 < len(text) <= LONGEST_ID and text.isascii() and text.replace("-", "").isalnum()


def row_of(message: Mapping[str, Any]) -> Json | None:
    """A message of a thread as one of chat completions; None where it is no part of the history."""
    role, content = message.get("role"), message.get("content")
    if message.get("status") != "complete" or not isinstance(role, str) or not isinstance(content, str):
        return None
    found: dict[str, Any] = {"role": role, "content": message.get("parts") or content}
    calls = message.get("toolCalls")
    if isinstance(calls, list) and calls:
        found["tool_calls"] = [_call_of(each) for each in calls if isinstance(each, dict)]
    if isinstance(answers := message.get("toolCallId"), str):
        found["tool_call_id"] = answers
    if message.get("isError") is True:
        found["is_error"] = True
    return found


def _call_of(call: Mapping[str, Any]) -> Json:
    arguments = call.get("arguments")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {
        "id": call.get("id"),
        "type": "function",
        "function": {"name": call.get("name"), "arguments": text},
    }


def title_of(text: str) -> str:
    """What a thread is called that begins with this message: its first line, as the gateway has it."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    line = "".join(character if character.isprintable() else " " for character in line[: 4 * LONGEST_TITLE])
    line = line if len(line) <= LONGEST_TITLE else line[: LONGEST_TITLE - 1].rstrip() + "…"
    return line.strip()
