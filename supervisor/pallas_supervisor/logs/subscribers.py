"""Subscribers of the log: one buffer of the newest lines for all of them, and how far each has read it.

Knows lines; nothing of records or connections. A buffer for each would grow with the number of those that do not read.
Here a reader that is too slow costs no more memory than one that is not, and gets the number of lines it has lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from pallas_supervisor.events.ring import Ring

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

MOST_LINES = 20_000
MOST_BYTES = 8 * 1024 * 1024
"""Lines, and bytes of them, that are kept while there are subscribers: how far one may be behind."""


class Kept(NamedTuple):
    """A line in the buffer."""

    agent: str
    level: int
    text: bytes


class Tail:
    """The newest lines of all agents, kept while there are subscribers.

    Args:
        lost_line: makes the line that stands for so many lost ones.
    """

    def __init__(self, lost_line: Callable[[int], bytes]) -> None:
        self.lost_line = lost_line
        self.lines: Ring[Kept] = Ring(MOST_LINES, MOST_BYTES)
        self._gone: Counter[tuple[str, int]] = Counter()
        """Lines that were kept and are not any more, by agent and level."""
        self.subscribers: set[Subscriber] = set()

    def subscribe(self, agents: Collection[str], level: int = logging.NOTSET) -> Subscriber:
        """Follow these agents (all, and the supervisor's own lines, if empty) from `level` up, until `unsubscribe`."""
        subscriber = Subscriber(self, frozenset(agents), level)
        self.subscribers.add(subscriber)
        return subscriber

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """Follow no more; without subscribers nothing is kept."""
        self.subscribers.discard(subscriber)
        if not self.subscribers:
            self.lines.clear()
            self._gone.clear()

    def append(self, agent: str, text: bytes, level: int = logging.INFO) -> None:
        """Keep a line, if there are subscribers."""
        if not self.subscribers:
            return
        for oldest in self.lines.append(Kept(agent, level, text), len(text)):
            self._gone[oldest.agent, oldest.level] += 1
        for subscriber in self.subscribers:
            if subscriber.wants(agent, level):
                subscriber.news.set()

    def gone(self, subscriber: Subscriber) -> int:
        """Lines that the subscriber wants, or would have wanted, and that are not kept any more."""
        return sum(count for (agent, level), count in self._gone.items() if subscriber.wants(agent, level))

    def kept(self, subscriber: Subscriber) -> int:
        """Lines that are kept and that the subscriber wants."""
        return sum(subscriber.wants(line.agent, line.level) for line in self.lines)


class Subscriber:
    """A reader of a `Tail`, from its end on."""

    def __init__(self, tail: Tail, agents: frozenset[str], level: int) -> None:
        self._tail = tail
        self._agents = agents
        self._level = level
        self.news = asyncio.Event()
        """Set where a line that is wanted has come."""
        self._number = tail.lines.end
        self._passed = tail.gone(self) + tail.kept(self)
        """Lines that are wanted among those before `_number`."""

    def wants(self, agent: str, level: int) -> bool:
        """Whether it wants lines of this agent and level."""
        return level >= self._level and (not self._agents or agent in self._agents)

    async def next(self) -> bytes:
        """The next line, waiting for one if there is none; a record of how many were lost comes in their place."""
        # Other tasks have their turn between two lines, however many wait. Above all the connection's own end: writing
        # after it makes asyncio log a warning, which would be the next line.
        await asyncio.sleep(0)
        lines = self._tail.lines
        while True:
            if self._number < lines.begin:
                self._number = lines.begin
                if (lost := self._tail.gone(self) - self._passed) > 0:
                    self._passed += lost
                    return self._tail.lost_line(lost)
            self.news.clear()
            while self._number < lines.end:
                line = lines.at(self._number)
                self._number += 1
                if self.wants(line.agent, line.level):
                    self._passed += 1
                    return line.text
            await self.news.wait()
