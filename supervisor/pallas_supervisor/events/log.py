"""The event log: what happened, in order and numbered without gaps, and its readers, who miss nothing unawares.

Knows what every event has; nothing of what events say, of who reads them or how. For the loop's thread.

An event is a JSON object on a line: `epoch` (this life of the supervisor; sorts by its beginning), `seq` (counts from 1
in it), `time`, `kind` (of what it is about), `name` (which of that kind), `event` (what happened), then what more there
is to say. `epoch` and `seq` are the position of whoever has read it.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from typing import NamedTuple

from pallas_common.logs.records import render
from pallas_common.secrets.shortening import without_secrets
from pallas_common.secrets.values import KnownSecrets
from pallas_common.times import timestamp
from pallas_supervisor.events.ring import Ring

MOST_EVENTS = 4_096
MOST_BYTES = 2 * 1024 * 1024
"""Events, and bytes of them, that are kept: how far a reader may be behind. Some 250 bytes are usual."""

LONGEST_TEXT = 2_000
"""Characters of a text in an event, which a worker may have written."""

GAP = "gap"
"""The kind of the line that stands for what a reader cannot be told; every reader gets it, whatever it selects."""

_RANDOM_BYTES = 4
_WAKE_EVERY = MOST_EVENTS // 4
"""Events after which a reader looks at the log, whatever it selects."""


class Position(NamedTuple):
    """Up to where somebody has read, or knows what is the case."""

    epoch: str
    seq: int


class Event(NamedTuple):
    """One event that is kept; `line` is its JSON with a line feed."""

    kind: str
    name: str
    line: bytes


class Selection(NamedTuple):
    """Which events are wanted: those of these kinds and these names; an empty set is all."""

    kinds: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()

    def has(self, event: Event) -> bool:
        """Whether the event is wanted."""
        return (not self.kinds or event.kind in self.kinds) and (not self.names or event.name in self.names)


EVERYTHING = Selection()


def new_epoch() -> str:
    """A name for a life of the supervisor: milliseconds since 1970 and a random number, both hexadecimal."""
    return f"{time.time_ns() // 1_000_000:012x}-{os.urandom(_RANDOM_BYTES).hex()}"


class EventLog:
    """The events of this life of the supervisor.

    Args:
        secrets: what no event may show.
        epoch: the name of this life.
    """

    def __init__(self, secrets: KnownSecrets | None = None, epoch: str | None = None) -> None:
        self.epoch = epoch or new_epoch()
        self._secrets = secrets if secrets is not None else KnownSecrets()
        self._ring: Ring[Event] = Ring(MOST_EVENTS, MOST_BYTES, first=1)
        self._readers: set[Reader] = set()
        self.closed = False

    @property
    def position(self) -> Position:
        """Of the newest event."""
        return Position(self.epoch, self._ring.end - 1)

    @property
    def readers(self) -> int:
        """How many follow."""
        return len(self._readers)

    def add(self, kind: str, name: str, event: str, **more: object) -> None:
        """Tell that something happened to a thing.

        Args:
            kind: of what thing: `agent`.
            name: the thing's.
            event: what happened, in one word that stays the same.
            more: what there is to say of it; secrets and too long texts are cut out of that.
        """
        line = self._line(self._ring.end, kind, name, event, more)
        added = Event(kind, name, line)
        self._ring.append(added, len(line))
        # Now and then all, or those that want none of this would seem to have missed it when they look again.
        everybody = self._ring.end % _WAKE_EVERY == 0
        for reader in self._readers:
            if everybody or reader.selection.has(added):
                reader.news.set()

    def close(self) -> None:
        """Nothing more will happen: readers get what there is, and then their end."""
        self.closed = True
        for reader in self._readers:
            reader.news.set()

    def newest(self, count: int, selection: Selection = EVERYTHING) -> Reader:
        """A reader of the newest so many events that are wanted, and of what comes after them."""
        number = self._ring.end
        for event in reversed(self._ring) if count else ():
            number -= 1
            count -= selection.has(event)
            if not count:
                break
        return Reader(self, self._ring, number, selection, gap=None)

    def after(self, position: Position, selection: Selection = EVERYTHING) -> Reader:
        """A reader of what came after a position; of another life, of all that is kept, and a gap before it.

        Raises:
            ValueError: there is no such position in this life yet.
        """
        if position.epoch != self.epoch:
            return Reader(self, self._ring, self._ring.begin, selection, gap="restarted")
        if not 0 <= position.seq < self._ring.end:
            raise ValueError(f"there is no event {position.seq} yet; the newest is {self._ring.end - 1}")
        return Reader(self, self._ring, position.seq + 1, selection, gap=None)

    def follow(self, reader: Reader) -> None:
        """Wake the reader when something comes, until `leave`."""
        self._readers.add(reader)

    def leave(self, reader: Reader) -> None:
        """Wake it no more."""
        self._readers.discard(reader)

    def gap_line(self, reason: str, missed: int) -> bytes:
        """The line that stands for what is not kept before the oldest event that is; from it one can read on."""
        if reason == "restarted":
            more: dict[str, object] = {"message": "the supervisor was started anew: read the state again"}
        else:
            more = {
                "missed": missed,
                "message": f"{missed} events are not kept any more: read the state again",
            }
        return self._line(self._ring.begin - 1, GAP, "", reason, more)

    def _line(self, seq: int, kind: str, name: str, event: str, more: dict[str, object]) -> bytes:
        # What readers go by is never gone through for secrets, which a number might happen to look like.
        known = {
            "epoch": self.epoch,
            "seq": seq,
            "time": timestamp(time.time()),
            "kind": kind,
            "name": name,
            "event": event,
        }
        bounded = {key: self._bounded(value) for key, value in more.items()}
        rest = f", {render(bounded, self._secrets)[1:]}" if more else "}"
        return f"{json.dumps(known)[:-1]}{rest}\n".encode()

    def _bounded(self, value: object) -> object:
        if isinstance(value, str) and len(value) > LONGEST_TEXT:
            return without_secrets(value, LONGEST_TEXT, self._secrets)
        return value


class Reader:
    """Somebody who reads the log, with nothing of their own but how far they are."""

    def __init__(
        self, log: EventLog, ring: Ring[Event], number: int, selection: Selection, *, gap: str | None
    ) -> None:
        self._log = log
        self._ring = ring
        self._number = number
        self._gap = gap
        self.selection = selection
        self.news = asyncio.Event()
        """Set where something that is wanted has come, or nothing will come any more."""

    @property
    def at_end(self) -> bool:
        """Whether nothing is left, and nothing will come."""
        return self._log.closed and self._number == self._ring.end

    def take(self, room: int, until: int | None = None) -> bytes:
        """The next lines that are there, about `room` bytes of them; none where the reader has read all.

        Args:
            until: take nothing that comes after the event of this number.
        """
        lines: list[bytes] = []
        size = 0
        if self._number < self._ring.begin or self._gap is not None:
            missed = self._ring.begin - self._number
            lines.append(self._log.gap_line(self._gap or "lost", missed))
            self._number, self._gap = max(self._number, self._ring.begin), None
        end = self._ring.end if until is None else min(until + 1, self._ring.end)
        while self._number < end and size < room:
            event = self._ring.at(self._number)
            self._number += 1
            if self.selection.has(event):
                lines.append(event.line)
                size += len(event.line)
        return b"".join(lines)

    async def wait(self, seconds: float) -> bool:
        """Wait for something that is wanted, or for the end; False where that has not come in so many seconds."""
        if self._number < self._ring.end or self._log.closed:
            return True
        self.news.clear()
        try:
            async with asyncio.timeout(seconds):
                return await self.news.wait()
        except TimeoutError:
            return False
