"""What happens in a turn, between the turn that tells it and the response that takes it: bounded, bursts merged.

Knows events and their sizes; must not know HTTP. Models tell hundreds of pieces of text in one turn of the loop: they
leave as one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from copy import replace
from typing import TYPE_CHECKING

from pallas_worker.interface.turn import TakenBack, Text, ToolCalled

if TYPE_CHECKING:
    from collections.abc import Callable

    from pallas_worker.interface.turn import TextKind, TurnEvent

ENOUGH = 64 * 1024
"""Characters that wait, from which on models are not read on."""
TOO_MUCH = 4 * 1024 * 1024
"""Characters that wait, from which on the turn is ended: tools and agents go on where models wait."""
_EVENT = 200
"""Characters that an event without text counts for."""


class _Pending:
    """Pieces of one text that nobody has taken."""

    __slots__ = ("agent", "kind", "length", "pieces")

    def __init__(self, text: Text) -> None:
        self.agent = text.agent
        self.kind: TextKind = text.kind
        self.pieces = [text.text]
        self.length = len(text.text)

    def whole(self) -> Text:
        return Text(self.agent, "".join(self.pieces), self.kind)


class EventQueue:
    """Events in their order, for one taker.

    Args:
        overflow: called, once at least, when more than `TOO_MUCH` wait.
    """

    def __init__(self, overflow: Callable[[], None]) -> None:
        self._overflow = overflow
        self._waiting: deque[_Pending | TurnEvent] = deque()
        self._size = 0
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self.closed = False
        """Whether nothing more is told."""

    def tell(self, event: TurnEvent) -> None:
        """Take an event; never waits, never raises. What is told after the end, by tasks of tools, goes nowhere."""
        if self.closed:
            return
        if self._size > TOO_MUCH:
            self._overflow()
            return
        last = self._waiting[-1] if self._waiting else None
        if isinstance(event, Text):
            if not event.text:
                return
            if isinstance(last, _Pending) and (last.agent, last.kind) == (event.agent, event.kind):
                last.pieces.append(event.text)
                last.length += len(event.text)
            else:
                self._waiting.append(_Pending(event))
            self._size += len(event.text)
        elif isinstance(event, TakenBack):
            self._take_back(event)
        else:
            self._waiting.append(event)
            self._size += _EVENT
            if isinstance(event, ToolCalled):
                self._size += len(json.dumps(event.arguments, default=str))
        if self._size >= ENOUGH:
            self._room.clear()
        self._news.set()

    def _take_back(self, event: TakenBack) -> None:
        """Void text that has not been taken yet is never told; of the rest, that it is void."""
        void = event.characters
        while void and self._waiting and isinstance(last := self._waiting[-1], _Pending):
            if last.kind != event.kind or (last.kind != "answer" and last.agent != event.agent):
                break
            if last.length > void:
                last.pieces = ["".join(last.pieces)[:-void]]
            else:
                self._waiting.pop()
            taken = min(void, last.length)
            last.length -= taken
            self._size -= taken
            void -= taken
        if void:
            self._waiting.append(replace(event, characters=void))
            self._size += _EVENT

    def close(self) -> None:
        """Nothing more is told, and nobody waits for room any more."""
        self.closed = True
        self._news.set()
        self._room.set()

    async def wait(self, seconds: float) -> None:
        """Until something has been told or nothing more is, for so many seconds at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()

    def take(self) -> list[TurnEvent]:
        """All that waits."""
        events = [entry.whole() if isinstance(entry, _Pending) else entry for entry in self._waiting]
        self._waiting.clear()
        self._size = 0
        if not self.closed:
            self._news.clear()
        self._room.set()
        return events

    async def room(self) -> None:
        """Wait until there is room for more of what models say."""
        await self._room.wait()
