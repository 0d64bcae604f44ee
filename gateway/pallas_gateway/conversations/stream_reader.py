"""What a worker's stream of chat completions says: its bytes as events of a turn, and what the turn ends with. Pure.

A worker runs an agent's code, so that what it sends is bounded and checked like anybody's.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from pallas_common.protocol.agent.incomplete import read_reason
from pallas_gateway.conversations.events import Reset, Text, ToolCall, ToolResult

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pallas_common.protocol.agent.incomplete import Reason
    from pallas_gateway.conversations.events import TurnEvent

type Json = Mapping[str, Any]

LARGEST_EVENT = 64 * 1024 * 1024
"""Bytes of one event; the last one holds all messages of the turn, images too."""
LARGEST_STREAM = 256 * 1024 * 1024
"""Bytes of a whole stream."""
LONGEST_NAME = 300
"""Characters of a tool's name or a call's id."""
_LONGEST_RESULT = 4000
_LONGEST_WAIT = 24 * 3600
"""Seconds."""
_DATA = b"data: "
_DONE = b"[DONE]"


class WrongStreamError(Exception):
    """What came is no stream of chat completions."""


class TurnEnd(NamedTuple):
    """What the agent has made of a turn."""

    messages: tuple[Json, ...]
    """Of chat completions, the user's new one first where there is one; not checked."""
    model: str | None = None
    """That had the last word."""
    reason: Reason | None = None
    """Why it is no whole answer; None where it is."""


class Usage(NamedTuple):
    """The tokens of all models of the turn, in OpenAI's words."""

    tokens: Json


class WorkerError(NamedTuple):
    """The turn has failed at the worker."""

    message: str
    code: str
    status: int
    """Of HTTP."""
    param: str | None = None
    retry_after: str | None = None
    """Seconds, where it says after how many to try again."""


type WorkerEvent = TurnEvent | TurnEnd | Usage | WorkerError


class StreamReader:
    """Takes the bytes of one stream as they come."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._size = 0
        self.is_done = False
        """Whether the stream has said that it is over."""

    def feed(self, data: bytes) -> Iterator[WorkerEvent]:
        """The events that are whole now.

        Raises:
            WrongStreamError: it is none, or too large.
        """
        self._size += len(data)
        if self._size > LARGEST_STREAM:
            raise WrongStreamError("the agent's answer is too large")
        searched = max(len(self._rest) - 1, 0)
        self._rest += data
        while (end := self._rest.find(b"\n\n", searched)) >= 0:
            frame = bytes(self._rest[:end])
            del self._rest[: end + 2]
            searched = 0
            if frame.startswith(_DATA):
                if frame == _DATA + _DONE:
                    self.is_done = True
                else:
                    yield from read_chunk(_parsed(frame[len(_DATA) :]))
        if len(self._rest) > LARGEST_EVENT:
            raise WrongStreamError("one event of the agent's answer is too large")


def read_chunk(chunk: Json) -> Iterator[WorkerEvent]:
    """The events of one chunk."""
    if "error" in chunk:
        yield read_error(chunk)
        return
    choices = chunk.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    delta = choice.get("delta") if isinstance(choice, dict) else None
    content = delta.get("content") if isinstance(delta, dict) else None
    if isinstance(content, str) and content:
        yield Text(content)
    told = chunk.get("pallas")
    if isinstance(told, dict):
        yield from _told(told)
    if isinstance(usage := chunk.get("usage"), dict):
        yield Usage(usage)


def read_error(document: Json, status: int | None = None) -> WorkerError:
    """The error that a chunk, or a whole answer with another status than 200, says.

    Args:
        status: of the answer; None for a chunk.
    """
    error = document.get("error")
    if not isinstance(error, dict):
        return WorkerError(_message(error, status), "agent_failed", status or 503)
    code = error.get("code")
    if not isinstance(code, str) or not code.isidentifier() or len(code) > LONGEST_NAME:
        code = "agent_unavailable" if status == 503 else "agent_failed"
    param = error.get("param")
    more = document.get("pallas")
    said = more if isinstance(more, dict) else {}
    return WorkerError(
        _message(error.get("message"), status),
        code,
        status or _number(said.get("status"), 400, 599) or 502,
        param[:LONGEST_NAME] if isinstance(param, str) else None,
        str(after) if (after := _number(said.get("retry_after"), 1, _LONGEST_WAIT)) is not None else None,
    )


def _number(value: object, least: int, most: int) -> int | None:
    known = isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
    return value if known and isinstance(value, int) else None


def _message(said: object, status: int | None) -> str:
    text = said if isinstance(said, str) and said else f"the agent answered with HTTP status {status or 200}"
    return text[:2000]


def _told(told: Json) -> Iterator[WorkerEvent]:
    match told.get("type"):
        case "tool_call":
            arguments = told.get("arguments")
            yield ToolCall(
                _name(told, "tool"),
                arguments if isinstance(arguments, dict) else {},
                _name(told, "id"),
                _name(told, "agent"),
            )
        case "tool_result":
            text = told.get("text")
            yield ToolResult(
                _name(told, "tool"),
                told.get("ok") is True,
                _name(told, "id"),
                _name(told, "agent"),
                text[:_LONGEST_RESULT] if isinstance(text, str) else "",
            )
        case "retry" if told.get("of") == "answer":
            characters = told.get("characters")
            if isinstance(characters, int) and not isinstance(characters, bool) and characters > 0:
                yield Reset(characters)
        case "turn":
            messages = told.get("messages")
            if not isinstance(messages, list) or not all(isinstance(each, dict) for each in messages):
                raise WrongStreamError("the agent's answer does not say what is to be kept of it")
            yield TurnEnd(tuple(messages), _model(told.get("usage")), read_reason(told.get("reason")))


def _model(usage: object) -> str | None:
    last = usage[-1] if isinstance(usage, list) and usage else None
    model = last.get("model") if isinstance(last, dict) else None
    return model[:LONGEST_NAME] if isinstance(model, str) else None


def _name(told: Json, field: str) -> str:
    value = told.get(field)
    return value[:LONGEST_NAME] if isinstance(value, str) else ""


def _parsed(data: bytes) -> Json:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise WrongStreamError("what the agent answers is no chat completion")
    return found
