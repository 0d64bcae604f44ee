"""What a call's models have said so far, told so that the answer's pieces make the answer.

Pure. The pieces of the answer that were told, without those that were taken back, are at the end the texts of the
result with a blank line between them, whatever was streamed: `settle` is the one place that sees to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mcp_types import TextContent

from pallas_common.http.json_bounds import whole_text
from pallas_worker.interface.turn import TakenBack, Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mcp_types import ContentBlock

    from pallas_worker.interface.turn import TextKind, TurnEvent

BETWEEN = "\n\n"
"""Stands between two texts of a turn."""


@dataclass(slots=True)
class _Message:
    """What a model has said of the message that it is writing."""

    begin: int
    """Where it begins in the answer, its separator included."""
    agent: str
    characters: dict[TextKind, int] = field(default_factory=dict)
    halves: dict[TextKind, str] = field(default_factory=dict)
    """The first half of a surrogate pair that the last piece ended with: servers cut between the two."""


class Spoken:
    """Tells a caller what the models of a call say."""

    def __init__(self, tell: Callable[[TurnEvent], None], *, takes_back: bool = True) -> None:
        """Prepare.

        Args:
            tell: takes what happens.
            takes_back: whether the reader can take text back that it was told.
        """
        self._takes_back = takes_back
        self.speakers: frozenset[str] = frozenset()
        """The agents whose words are the answer; known once the call has an instance."""
        self._tell = tell
        self._pieces: list[str] = []
        self._length = 0
        self._messages: dict[object, _Message] = {}

    def piece(self, model: object, agent: str, text: str, *, reasoning: bool) -> None:
        """See `current_call.Speech`."""
        message = self._messages.get(model)
        if message is None:
            message = self._messages[model] = _Message(self._length, agent)
        kind: TextKind = "reasoning" if reasoning else "answer" if agent in self.speakers else "other"
        text = message.halves.pop(kind, "") + text
        if text and "\ud800" <= text[-1] <= "\udbff":  # its other half may be the next piece
            text, message.halves[kind] = text[:-1], text[-1]
        if text:
            self._say(message, kind, whole_text(text))

    def _say(self, message: _Message, kind: TextKind, text: str) -> None:
        said = message.characters.get(kind, 0)
        message.characters[kind] = said + len(text)
        if kind == "answer":
            if not said:
                message.begin = self._length
                text = BETWEEN + text if self._length else text
            self._pieces.append(text)
            self._length += len(text)
        self._tell(Text(message.agent, text, kind))

    def end(self, model: object) -> None:
        """See `current_call.Speech`."""
        message = self._messages.pop(model, None)
        if message is not None:
            for kind, half in message.halves.items():
                self._say(message, kind, whole_text(half))

    def begin_again(self, model: object, agent: str) -> None:
        """See `current_call.Speech`."""
        message = self._messages.pop(model, None)
        if message is None:
            return
        for kind, characters in message.characters.items():
            if kind == "answer":
                self._take_back(agent, message.begin)
            else:
                self._tell(TakenBack(agent, characters, kind))

    def may_begin_again(self, model: object) -> bool:
        """See `current_call.Speech`. What is no part of the answer is shown by readers alone that take it back."""
        message = self._messages.get(model)
        return self._takes_back or message is None or not {"answer", "reasoning"} & message.characters.keys()

    def settle(self, agent: str, content: Iterable[ContentBlock]) -> None:
        """The call ends with this result: tell what was not told of it, and take back what is no part of it.

        Models that do not stream, agents whose answer only shows at the end, texts that were changed after they had
        been spoken: all of them are told here.
        """
        answer = BETWEEN.join(block.text for block in content if isinstance(block, TextContent))
        told = "".join(self._pieces)
        if told == answer:
            return
        same = len(told) if answer.startswith(told) else _common(told, answer)
        if same < len(told):
            self._take_back(agent, same)
        if same < len(answer):
            rest = answer[same:]
            self._pieces.append(rest)
            self._length += len(rest)
            self._tell(Text(agent, rest))

    def _take_back(self, agent: str, begin: int) -> None:
        """Void what was told of the answer from this character on."""
        void = self._length - begin
        if void > 0:
            self._pieces = ["".join(self._pieces)[:begin]]
            self._length = begin
            self._tell(TakenBack(agent, void))


def _common(one: str, other: str) -> int:
    """How many characters both begin with."""
    same, longest = 0, min(len(one), len(other))
    while same < longest:  # halves are compared: character by character, a long answer would hold the loop
        middle = (same + longest + 1) // 2
        if one.startswith(other[same:middle], same):
            same = middle
        else:
            longest = middle - 1
    return same
