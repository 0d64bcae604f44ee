"""What has happened in a turn so far, for all who follow it: each reads at its own pace, from its own place.

Nobody is waited for and nothing is queued: text that a slow reader has not taken yet is one piece when it does, and a
reader that stalls costs nothing but its connection. Pure but for the waiting.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pallas_gateway.conversations.events import Position, Text

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from pallas_gateway.conversations.events import TurnEvent

    type Happened = tuple[Position, TurnEvent]
    """An event, and the place behind it."""

LARGEST_BATCH = 64 * 1024
"""Characters of text that a reader takes at a time: more of it would wait in memory for a client that is slow."""


class _Run:
    """Text with nothing in between."""

    __slots__ = ("_pieces", "length")

    def __init__(self, first: str) -> None:
        self._pieces = [first]
        self.length = len(first)

    def add(self, piece: str) -> None:
        self._pieces.append(piece)
        self.length += len(piece)

    def after(self, characters: int, most: int) -> str:
        """What comes after so many characters, so many at most."""
        missing = self.length - characters
        if missing <= 0:
            return ""
        if len(last := self._pieces[-1]) != missing:  # who keeps up takes the last piece as it is
            self._pieces = [last := "".join(self._pieces)]
        start = len(last) - missing
        return last[start : start + most]


class TurnLog:
    """The events of one turn."""

    def __init__(self) -> None:
        self._entries: list[_Run | TurnEvent] = []
        self._waiting: list[asyncio.Future[bool]] = []
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

    def ends_at(self, place: Position) -> bool:
        """Whether nothing has happened behind that place, and nothing will."""
        return self.is_over and not self._behind(place)

    async def events(self, after: Position | None = None) -> AsyncGenerator[Happened]:
        """What has happened behind that place and what happens from then on, to the turn's end.

        Each comes with the place behind it.
        """
        async for happened in self.batches(after):
            for each in happened:
                yield each

    async def batches(
        self, after: Position | None = None, *, silence: float | None = None
    ) -> AsyncGenerator[list[Happened]]:
        """The same, all that is there at a time, of text `LARGEST_BATCH` at most.

        Args:
            silence: seconds without an event after which there is a batch without any.
        """
        place = after or Position()
        while True:
            found = self._behind(place)
            if found:
                place = found[-1][0]
                yield found
            elif self.is_over:
                return
            elif await self._is_silent(silence):
                yield []

    def _behind(self, place: Position) -> list[Happened]:
        entry, characters = place
        left = LARGEST_BATCH
        found: list[Happened] = []
        while entry < len(self._entries) and left > 0:
            event = self._entries[entry]
            if not isinstance(event, _Run):
                entry, characters = entry + 1, 0
                found.append((Position(entry), event))
            elif text := event.after(characters, left):
                characters += len(text)
                left -= len(text)
                found.append((Position(entry, characters), Text(text)))
            elif entry + 1 < len(self._entries):
                entry, characters = entry + 1, 0
            else:
                break
        return found

    async def _is_silent(self, seconds: float | None) -> bool:
        """Wait for the next event; whether so many seconds went by without one."""
        loop = asyncio.get_running_loop()
        news: asyncio.Future[bool] = loop.create_future()
        self._waiting.append(news)
        timer = None if seconds is None else loop.call_later(seconds, _wake, news, True)
        try:
            return await news
        finally:
            if timer is not None:
                timer.cancel()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            _wake(each, False)


def _wake(waiting: asyncio.Future[bool], is_silent: bool) -> None:
    if not waiting.done():
        waiting.set_result(is_silent)
