"""An answer while it is spoken, in pieces of HTML: what has changed since somebody was told. Pure.

Text is rendered block by block as it grows, so that a long answer costs no more than its last block each time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pallas_common.http.html import Html, tag
from pallas_gateway.conversations.events import Reset, Text, ToolCall, ToolResult
from pallas_gateway.http.pages.view.calls import CallView, call_view
from pallas_gateway.http.pages.view.markdown import SHOWN, markdown, split
from pallas_gateway.http.pages.view.text import left_out

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pallas_gateway.conversations.events import TurnEvent


class Change(NamedTuple):
    """What those who have the pieces before it need to have all."""

    first: int
    """Index of the first piece that is another one now; those behind it go."""
    pieces: Sequence[Html]
    """From there on."""


@dataclass(slots=True)
class _Text:
    """Text with no call in between."""

    settled: list[Html] = field(default_factory=list)
    open: str = ""
    """Behind what is settled."""
    said: str = ""
    """All of it that is shown, in case some is taken back."""
    more: int = 0
    """Characters behind that: of a model that talks without end, no reader's copy is kept."""

    @property
    def length(self) -> int:
        return len(self.said) + self.more

    def add(self, delta: str) -> None:
        shown = delta[: SHOWN - len(self.said)]
        self.said += shown
        self.open += shown
        self.more += len(delta) - len(shown)

    def take_back(self, characters: int) -> None:
        unseen = min(characters, self.more)
        self.more -= unseen
        if characters > unseen:
            self.said = self.open = self.said[: len(self.said) - (characters - unseen)]
            self.settled = []

    def pieces(self) -> list[Html]:
        parts = split(self.open)
        self.settled += [_piece(markdown(source)) for source in parts.settled]
        self.open = parts.open
        opened = [_piece(markdown(self.open))] if self.open.strip() else []
        unseen = left_out(self.more)
        return [*self.settled, *opened, *([] if unseen is None else [_piece(unseen)])]


class LiveAnswer:
    """One turn's answer, for one reader."""

    def __init__(self) -> None:
        self._items: list[_Text | CallView] = []
        self._told: list[Html] = []

    def take(self, event: TurnEvent) -> None:
        """Something has happened."""
        match event:
            case Text(delta):
                if not self._items or not isinstance(last := self._items[-1], _Text):
                    self._items.append(last := _Text())
                last.add(delta)
            case Reset(characters):
                self._take_back(characters)
            case ToolCall():
                self._items.append(CallView(event.id, event.tool, event.agent, dict(event.arguments)))
            case ToolResult():
                for index, item in enumerate(self._items):
                    if isinstance(item, CallView) and item.id == event.id and item.agent == event.agent:
                        self._items[index] = item._replace(ok=event.ok, result=event.text)

    def change(self) -> Change | None:
        """What is new since this was asked last; None where nothing is."""
        pieces = [piece for item in self._items for piece in _pieces(item)]
        told = self._told
        first = next(
            (index for index, (old, new) in enumerate(zip(told, pieces, strict=False)) if old != new),
            min(len(told), len(pieces)),
        )
        if first == len(told) == len(pieces):
            return None
        self._told = pieces
        return Change(first, pieces[first:])

    def _take_back(self, characters: int) -> None:
        for item in reversed(self._items):
            if isinstance(item, _Text):
                some = min(characters, item.length)
                item.take_back(some)
                characters -= some
            if not characters:
                return


def _pieces(item: _Text | CallView) -> list[Html]:
    return item.pieces() if isinstance(item, _Text) else [_piece(call_view(item))]


def _piece(html: Html) -> Html:
    """One element whatever it holds: pieces are counted."""
    return tag("div", html)
