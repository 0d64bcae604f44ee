"""What has happened in a turn so far, for all who follow it: each reads at its own pace, from its own place.

Nobody is waited for and nothing is queued: text that a slow reader has not taken yet is one piece when it does, and a
reader that stalls costs nothing but its connection. Pure but for the waiting.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pallas_gateway.conversations.events import Position, Text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pallas_gateway.conversations.events import TurnEvent


class _Run:
    """Text with nothing in between."""

    __slots__ = ("_pieces", "length")

    def __init__(self, first: str) -> None:
        self._pieces = [first]
        self.length = len(first)

    def add(self, piece: str) -> None:
        self._pieces.append(piece)
        self.length += len(piece)

    def after(self, characters: int) -> str:
        """What comes after so many characters."""
        missing = self.length - characters
        if missing <= 0:
            return ""
        if len(last := self._pieces[-1]) != missing:  # who keeps up takes the last piece as it is
            self._pieces = [last := "".join(self._pieces)]
        return last[len(last) - missing :]


class TurnLog:
    """The events of one turn."""

    def __init__(self) -> None:
        self._entries: list[_Run | TurnEvent] = []
        self._waiting: list[asyncio.Future[None]] = []
        self.is_over = False

    def tell(self, event: TurnEvent) -> None:
        """It has happened."""
        if isinstance(event, Text):
            if not event.delta:
                return
            if self._entries and isinstance(last := self._entries[-1], _Run):
                last.add(event.delta)
            else:
                self._entries.append(_Run(event.delta))
        else:
            self._entries.append(event)
        self._wake()

    def close(self) -> None:
        """Nothing more happens."""
        self.is_over = True
        self._wake()

    async def events(self, after: Position | None = None) -> AsyncIterator[tuple[Position, TurnEvent]]:
        """What has happened behind that place and what happens from then on, to the turn's end.

        Each comes with the place behind it.
        """
        entry, characters = after or Position()
        while True:
            while entry < len(self._entries):
                found = self._entries[entry]
                if not isinstance(found, _Run):
                    entry, characters = entry + 1, 0
                    yield Position(entry), found
                elif text := found.after(characters):
                    characters += len(text)
                    yield Position(entry, characters), Text(text)
                elif entry + 1 < len(self._entries):
                    entry, characters = entry + 1, 0
                else:
                    break
            if self.is_over:
                return
            news = asyncio.get_running_loop().create_future()
            self._waiting.append(news)
            await news

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)
