"""What a worker's stream of chat completions says, as values of ours. Pure.

The shapes are those of docs/chat-completions.md; what is of another type is passed over, and what has to be kept of a
turn is checked to be rows.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from pallas_common.protocol.agent.incomplete import SENTENCES, read_reason
from pallas_control.mcp.errors import WrongAnswerError
from pallas_control.mcp.messages import parse_object
from pallasctl.verbs.talk.backends.backend import Aside, Reset, Text, ToolCall, ToolResult
from pallasctl.verbs.talk.backends.gateway_stream import TurnFailedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pallasctl.verbs.talk.backends.backend import Happened, Json

NAMES = {
    "systemOverride": "system_override",
    "systemAppend": "system_append",
    "modelOverride": "model_override",
}
"""Of parameters: name at the REST API → name here, where they differ."""


class TurnEnd(NamedTuple):
    """What there is to keep of a turn."""

    rows: Sequence[Json]
    ignored: Sequence[str]


class Usage(NamedTuple):
    """The tokens of all models of the turn."""

    tokens: Json


def read_chunk(data: bytes) -> Iterator[Happened | TurnEnd | Usage]:
    """What one event of a stream says.

    Raises:
        TurnFailedError: it says that the turn has failed.
        WrongAnswerError: it is no JSON object, or does not say what is to be kept.
    """
    chunk = parse_object(data)
    if chunk is None:
        raise WrongAnswerError("what came is no chat completion")
    if "error" in chunk:
        raise TurnFailedError(error_of(chunk))
    match chunk.get("choices"):
        case [{"delta": {"content": str(content)}}, *_] if content:
            yield Text(content)
    told = chunk.get("pallas")
    if isinstance(told, dict):
        yield from _told(told)
    if isinstance(usage := chunk.get("usage"), dict):
        yield Usage(usage)


def error_of(document: Mapping[str, Any]) -> str:
    """What an error of chat completions says."""
    match document.get("error"):
        case {"message": str(message)} if message.strip():
            return message
    return "an error without a message"


def calls_of(rows: Sequence[Json]) -> list[Json]:
    """All tool calls of rows, as the REST API has them."""
    found: list[Json] = []
    for row in rows:
        calls = row.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            match call:
                case {"id": str(id_), "function": {"name": str(name), "arguments": str(arguments)}}:
                    found.append({"id": id_, "name": name, "arguments": _arguments(arguments)})
    return found


def _arguments(text: str) -> object:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return found if isinstance(found, dict) else text


def _told(told: Mapping[str, Any]) -> Iterator[Happened | TurnEnd]:
    match told:
        case {"type": "tool_call", "tool": str(tool)}:
            yield ToolCall(tool, told.get("arguments"))
        case {"type": "tool_result", "tool": str(tool)}:
            text = told.get("text")
            yield ToolResult(tool, told.get("ok") is True, text if isinstance(text, str) else "")
        case {"type": "retry", "of": "answer", "characters": int(characters)} if characters > 0:
            yield Reset(characters)
        case {"type": "turn"}:
            rows, ignored = told.get("messages"), told.get("ignored")
            if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
                raise WrongAnswerError("the agent's answer does not say what is to be kept of it")
            if (reason := read_reason(told.get("reason"))) is not None:
                yield Aside(SENTENCES[reason])
            if isinstance(turns := told.get("turns_left_out"), int) and turns > 0:
                yield Aside(
                    f"the conversation was too long for the model, which has not seen its oldest {turns} turns"
                )
            names = ignored if isinstance(ignored, list) else []
            yield TurnEnd(rows, [name for name in names if isinstance(name, str)])
