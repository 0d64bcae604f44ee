"""`GET /v1/events` of the control API: which events are wanted, and their answer, which may go on without end.

Knows queries, Starlette and the event log; nothing of what events say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from starlette.responses import Response, StreamingResponse

from pallas_supervisor.agents.errors import RefusedError
from pallas_supervisor.events.log import Position, Selection
from pallas_supervisor.http.control.requests import (
    MAX_QUERY,
    BadRequestError,
    TooLargeError,
    parse_count,
    parse_switch,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

    from pallas_supervisor.events.log import EventLog, Reader

DEFAULT_COUNT = 100
MOST_FOLLOWERS = 200
"""Connections that may follow at a time; the control socket is for those as well who ask and go."""

HEARTBEAT = 15.0
"""Seconds after which a follower gets an empty line if no event comes: either side notices that the other has gone."""

PIECE = 32 * 1024
"""Bytes of events that are handed to a connection at once."""


class EventQuery(NamedTuple):
    """Which events are wanted."""

    position: Position | None
    """Those after it; None for the `newest`."""
    newest: int
    selection: Selection
    follow: bool


@dataclass(frozen=True, slots=True)
class EventRoute:
    """Answers with events."""

    _log: EventLog

    async def get(self, request: Request) -> Response:
        """The events after a position, or the newest, and with `follow` those that come after them."""
        query = parse_event_query(request)
        if query.follow and self._log.readers >= MOST_FOLLOWERS:
            raise RefusedError(f"{MOST_FOLLOWERS} clients follow the events already: end one of them first")
        reader = self._reader(query)
        lines = self._follow(reader) if query.follow else self._there(reader)
        return StreamingResponse(lines, media_type="application/x-ndjson")

    def _reader(self, query: EventQuery) -> Reader:
        if query.position is None:
            return self._log.newest(query.newest, query.selection)
        try:
            return self._log.after(query.position, query.selection)
        except ValueError as error:
            raise BadRequestError(f"`seq`: {error}") from None

    async def _there(self, reader: Reader) -> AsyncIterator[bytes]:
        """What there is by now: a client that reads slowly never gets to what comes meanwhile."""
        newest = self._log.position.seq
        while piece := reader.take(PIECE, until=newest):
            yield piece

    async def _follow(self, reader: Reader) -> AsyncIterator[bytes]:
        # Only here, since for a client that has gone already this never begins.
        self._log.follow(reader)
        try:
            async for piece in self._there(reader):
                yield piece
            yield b"\n"  # what follows is new
            while not reader.at_end:
                if not await reader.wait(HEARTBEAT):
                    yield b"\n"
                if piece := reader.take(PIECE):
                    yield piece
        finally:
            self._log.leave(reader)


def parse_event_query(request: Request) -> EventQuery:
    """The query of `GET /v1/events`.

    Raises:
        TooLargeError: it is longer than `MAX_QUERY`.
        BadRequestError: a parameter cannot be understood.
    """
    if len(request.scope["query_string"]) > MAX_QUERY:
        raise TooLargeError(f"the query is longer than {MAX_QUERY} bytes")
    query = request.query_params
    epoch, seq, count = query.get("epoch"), query.get("seq"), query.get("n")
    if epoch is None and seq is not None:
        raise BadRequestError("`seq` counts in one life of the supervisor: give its `epoch` as well")
    if epoch is not None and count is not None:
        raise BadRequestError("`n` is of the newest events, `epoch` and `seq` of those after them: give one")
    return EventQuery(
        position=None
        if epoch is None
        else Position(epoch, parse_count("seq", seq or "0", "the number of an event")),
        newest=DEFAULT_COUNT if count is None else parse_count("n", count, "a number of events"),
        selection=Selection(frozenset(query.getlist("kind")), frozenset(query.getlist("name"))),
        follow=parse_switch("follow", query.get("follow", "0")),
    )
