"""What happens in a turn, in the words of the REST API, and the place of each in the turn. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pallas_common.protocol.agent.incomplete import Reason


class Text(NamedTuple):
    """A piece of the answer."""

    delta: str


class ToolCall(NamedTuple):
    """A model has decided to call a tool, and the call begins."""

    tool: str
    """As the agent lists it: `server__tool`."""
    arguments: Mapping[str, object]
    id: str
    agent: str = ""
    """Whose model it is: the agent that was asked, or one below it."""


class ToolResult(NamedTuple):
    """A call has ended; one for each `ToolCall`."""

    tool: str
    ok: bool
    id: str
    agent: str = ""
    text: str = ""
    """The beginning of what it gave."""


class Reset(NamedTuple):
    """So many characters of the answer that were told last are void: the model is asked again."""

    characters: int


class Final(NamedTuple):
    """The turn is over, and kept."""

    turn_index: int
    """Of its last message."""
    reason: Reason | None = None
    """Why the answer is not a whole one; None where it is."""


class Failed(NamedTuple):
    """The turn is over without an answer."""

    message: str
    type: str = "turn_failed"
    """One word for programs."""
    status: int = 502
    """Of HTTP, where nothing has been told before."""
    retry_after: str | None = None
    field: str | None = None
    """Of the request, where that was wrong."""


type TurnEvent = Text | ToolCall | ToolResult | Reset | Final | Failed

_PIECE = 64 * 1024

_ID = re.compile(r"(?P<turn>[0-9a-f-]{1,64})\.(?P<entry>[0-9]{1,9})\.(?P<characters>[0-9]{1,9})")


class Position(NamedTuple):
    """How far somebody has read what happened in a turn."""

    entry: int = 0
    """How many entries were read to their end."""
    characters: int = 0
    """Of the text that is the next entry."""

    def text(self, turn: str) -> str:
        """As the id of a server-sent event."""
        return f"{turn}.{self.entry}.{self.characters}"

    @classmethod
    def parse(cls, text: str | None, turn: str) -> Position:
        """What an id of an event of this turn says; the beginning for any other text."""
        found = _ID.fullmatch(text or "")
        if found is None or found["turn"] != turn:
            return cls()
        return cls(int(found["entry"]), int(found["characters"]))


def take_back(pieces: list[str], characters: int) -> None:
    """Take so many characters from the end of a text that is there in pieces.

    It costs what it takes away, also of a long text of which some is taken back again and again.
    """
    while pieces and characters > 0:
        last = pieces.pop()
        if left := max(len(last) - characters, 0):
            pieces += [last[start : min(start + _PIECE, left)] for start in range(0, left, _PIECE)]
        characters -= len(last) - left
