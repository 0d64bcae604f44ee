"""`GET /v1/logs` of the control API: which lines are wanted, and their answer, which may go on without end.

Knows queries, Starlette and the log router; nothing of what the lines say.
"""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from starlette.responses import Response, StreamingResponse

from pallas_common.logs.levels import LEVEL_NAMES, level_name, level_number
from pallas_common.protocol.gateway import GATEWAY_NAME
from pallas_common.times import rfc3339
from pallas_supervisor.http.control.requests import (
    MAX_QUERY,
    BadRequestError,
    TooLargeError,
    parse_count,
    parse_switch,
    shown,
)
from pallas_supervisor.lifecycle.states import label

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.requests import Request

    from pallas_supervisor.agents.verbs import OperatorVerbs
    from pallas_supervisor.logs.router import LogRouter

DEFAULT_LINES = 100
PIECE = 32 * 1024
"""Bytes of log lines that are handed to a connection at once."""


class LogQuery(NamedTuple):
    """Which lines of the log are wanted."""

    agents: tuple[str, ...]
    lines: int
    since: str
    """An RFC 3339 UTC time that compares with those of the lines; empty for all."""
    level: int
    follow: bool


@dataclass(frozen=True, slots=True)
class LogRoute:
    """Answers with log lines."""

    _operations: OperatorVerbs
    _router: LogRouter
    _has_gateway: Callable[[], bool]

    async def get(self, request: Request) -> Response:
        """The newest lines, and with `follow` those that come after them."""
        query = parse_log_query(request)
        if query.agents:
            query = query._replace(agents=self._resolve(query.agents))
        lines = self._follow(query) if query.follow else _pieces(self._newest(query))
        return StreamingResponse(lines, media_type="application/x-ndjson")

    def _resolve(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The named agents, and the gateway by its name in the log."""
        gateway = label(GATEWAY_NAME)
        if gateway not in names or not self._has_gateway():
            return self._operations.resolve(names)
        agents = [name for name in names if name != gateway]
        return (*(self._operations.resolve(agents) if agents else ()), gateway)

    def _newest(self, query: LogQuery) -> list[bytes]:
        return self._router.newest(query.agents, query.lines, query.since, query.level)

    async def _follow(self, query: LogQuery) -> AsyncIterator[bytes]:
        # Subscribed only here, since for a client that has gone already this never begins.
        subscriber = self._router.tail.subscribe(query.agents, query.level)
        try:
            # A client that filters the lines has to know where the old ones end: an empty line says it.
            async for piece in _pieces([*self._newest(query), b""]):
                yield piece
            while True:
                yield await subscriber.next() + b"\n"
        finally:
            self._router.tail.unsubscribe(subscriber)


async def _pieces(lines: list[bytes]) -> AsyncIterator[bytes]:
    """The lines with their ends, some at a time: a client that does not read them costs little memory."""
    piece = bytearray()
    for line in lines:
        piece += line + b"\n"
        if len(piece) >= PIECE:
            yield bytes(piece)
            piece.clear()
    if piece:
        yield bytes(piece)


def parse_log_query(request: Request) -> LogQuery:
    """The query of `GET /v1/logs`.

    Raises:
        TooLargeError: it is longer than `MAX_QUERY`.
        BadRequestError: a parameter cannot be understood.
    """
    if len(request.scope["query_string"]) > MAX_QUERY:
        raise TooLargeError(f"the query is longer than {MAX_QUERY} bytes")
    query = request.query_params
    return LogQuery(
        agents=tuple(query.getlist("agent")),
        lines=_lines(query.get("n"), everything="since" in query),
        since=_since(query.get("since")),
        level=_level(query.get("level")),
        follow=parse_switch("follow", query.get("follow", "0")),
    )


def _lines(text: str | None, *, everything: bool) -> int:
    """How many lines are wanted; without a number the newest ones, or all of those that `since` leaves."""
    if text is None:
        return sys.maxsize if everything else DEFAULT_LINES
    return parse_count("n", text, "a number of lines")


def _level(text: str | None) -> int:
    """The number of the least level that is wanted."""
    if text is None:
        return logging.NOTSET
    if level_name(text) is None:
        raise BadRequestError(f"`level` is {shown(text)}; it is one of {', '.join(LEVEL_NAMES)}")
    return level_number(text)


def _since(text: str | None) -> str:
    """When the wanted lines begin; empty where that is before all times."""
    if not text:
        return ""
    try:
        moment = _seconds_back(text) or datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadRequestError(
            f"`since` is {shown(text)}; give seconds back, or an ISO 8601 time of the years 1 to 9999"
        ) from None
    return "" if moment == _EVER else rfc3339(moment, "microseconds")


_EVER = datetime.min.replace(tzinfo=UTC)


def _seconds_back(text: str) -> datetime | None:
    """The moment so many seconds ago; None for a text that is no number."""
    try:
        seconds = float(text)
    except ValueError:
        return None
    if not seconds >= 0:
        raise ValueError(text)
    try:
        return datetime.now(UTC) - timedelta(seconds=seconds)
    except OverflowError:
        return _EVER
