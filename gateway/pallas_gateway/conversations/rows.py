"""Rows of the store as messages of chat completions, and what is known of a turn's rows while it runs. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pallas_gateway.conversations.events import Reset, Text, ToolResult, take_back
from pallas_gateway.conversations.events import ToolCall as Called
from pallas_gateway.conversations.keeping.turn_rows import Said
from pallas_gateway.store.conversations.records import Row, ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pallas_gateway.conversations.events import TurnEvent

type Json = dict[str, Any]

_ROLES = ("user", "assistant", "tool")


def message_of(row: Row) -> Json:
    """A row as a worker takes it."""
    message: Json = {"role": row.role, "content": row.content}
    if row.role == "tool":
        message["tool_call_id"] = row.tool_call_id
        message["content"] = row.content if row.content is not None else ""
        if row.is_error:
            message["is_error"] = True
    if row.tool_calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in row.tool_calls
        ]
    if row.state is not None:
        message["pallas"] = row.state
    return message


def row_of(message: Mapping[str, Any]) -> Row:
    """A message of a turn, as its worker or a client says it, as a row.

    Raises:
        ValueError: it is none that could be kept.
    """
    role = message.get("role")
    if role not in _ROLES:
        raise ValueError("a message's role is none of user, assistant and tool")
    content = message.get("content")
    if isinstance(content, list):
        if not all(isinstance(part, dict) for part in content):
            raise ValueError("a message's content has a part that is no object")
    elif content is not None and not isinstance(content, str):
        raise ValueError("a message's content is neither text nor parts")
    state = message.get("pallas") if role == "assistant" else None
    call_id = message.get("tool_call_id") if role == "tool" else None
    return Row(
        role=role,
        content=content,
        tool_calls=_calls(message.get("tool_calls")) if role == "assistant" else (),
        tool_call_id=call_id if isinstance(call_id, str) else None,
        is_error=role == "tool" and message.get("is_error") is True,
        state=state if isinstance(state, dict) else None,
    )


def _calls(value: object) -> tuple[ToolCall, ...]:
    calls = []
    for each in value if isinstance(value, list) else ():
        match each:
            case {"id": str() as id_, "function": {"name": str() as name, "arguments": str() as arguments}}:
                calls.append(ToolCall(id_, name, arguments))
            case _:
                raise ValueError("a message has a tool call without id, name or arguments")
    return tuple(calls)


class Draft:
    """The rows of a turn as far as it has come; its end says them exactly.

    A round is what a model says with the tools that it calls, and their results. Calls of agents below the one that is
    asked are no part of its conversation: the first call of a turn is always its own.
    """

    def __init__(self) -> None:
        self.settled: list[Row] = []
        """Of the rounds that are over."""
        self._texts: list[str] = []
        self._calls: dict[str, ToolCall] = {}
        self._results: dict[str, ToolResult] = {}
        self._agent: str | None = None

    @property
    def text(self) -> str:
        """What the model says in the round that is under way."""
        self._texts = ["".join(self._texts)]
        return self._texts[0]

    @property
    def pending(self) -> list[Row]:
        """The round that is under way: the answer that is being spoken at least."""
        calls = tuple(self._calls.values())
        rows = [Row(role="assistant", content=self.text.strip("\n"), tool_calls=calls)]
        for call in calls:
            result = self._results.get(call.id)
            rows.append(
                Row(
                    role="tool",
                    content="" if result is None else result.text,
                    tool_call_id=call.id,
                    is_error=result is not None and not result.ok,
                )
            )
        return rows

    @property
    def said(self) -> Said:
        """All of it."""
        return Said(tuple(self.settled), self.pending)

    def take(self, event: TurnEvent) -> bool:
        """It has happened; whether that is to be seen in the store before the turn is over."""
        match event:
            case Text(delta):
                self._settle()
                self._texts.append(delta)
                return False
            case Reset(characters):
                take_back(self._texts, characters)
                return False
            case Called():
                return self._call(event)
            case ToolResult():
                return self._result(event)
            case _:
                return False

    def _call(self, call: Called) -> bool:
        """A call begins; whether it is one of the agent's own."""
        self._agent = self._agent or call.agent
        if call.agent != self._agent:
            return False
        self._settle()
        self._calls[call.id] = ToolCall(call.id, call.tool, json.dumps(call.arguments, ensure_ascii=False))
        return True

    def _result(self, result: ToolResult) -> bool:
        """A call has ended; whether it is one of the agent's own."""
        if result.agent != self._agent or result.id not in self._calls:
            return False
        self._results[result.id] = result
        return True

    def _settle(self) -> None:
        """A round ends with the first word, or call, behind the results of all its calls."""
        if self._calls and self._calls.keys() == self._results.keys():
            self.settled += self.pending
            self._texts, self._calls, self._results = [], {}, {}


def entry_of(event: TurnEvent) -> Sequence[object]:
    """An event as an entry of a turn's journal."""
    return (type(event).__name__, *event)


def said_in(entries: Iterable[Sequence[object]]) -> Said:
    """What a turn had said that has these entries in its journal; nothing where there are none."""
    draft, is_empty = Draft(), True
    for entry in entries:
        is_empty = False
        match entry:
            case ["Text", str() as delta]:
                draft.take(Text(delta))
            case ["Reset", int() as characters]:
                draft.take(Reset(characters))
            case ["ToolCall", str() as tool, dict() as arguments, str() as id_, str() as agent]:
                draft.take(Called(tool, arguments, id_, agent))
            case ["ToolResult", str() as tool, bool() as ok, str() as id_, str() as agent, str() as text]:
                draft.take(ToolResult(tool, ok, id_, agent, text))
    return Said() if is_empty else draft.said


def messages_of(rows: Iterable[Row]) -> list[Json]:
    """The rows as a worker takes them."""
    return [message_of(row) for row in rows]
