"""What is asked at the control socket: bodies and queries as typed values, or which part of them cannot be understood.

Knows JSON and queries; nothing of the fleet. Whatever is sent, the answer names the field.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.requests import ClientDisconnect

from pallas_common.logs.levels import LEVEL_NAMES, level_name, level_number
from pallas_common.problems import quoted, shortened
from pallas_common.times import rfc3339

if TYPE_CHECKING:
    from starlette.datastructures import QueryParams
    from starlette.requests import Request

DEFAULT_TIMEOUT = 90.0
LONGEST_TIMEOUT = 86_400.0
DEFAULT_LINES = 100
MAX_BODY = 1024 * 1024
"""Bytes of a request's body: thousands of names of agents."""
MAX_QUERY = 32 * 1024
"""Bytes of a request's query."""
SHOWN_FIELDS = 10
"""Unknown fields that an answer names."""

_KINDS = {
    dict: "an object",
    list: "a list",
    bool: "a truth value",
    int: "a number",
    float: "a number",
    type(None): "null",
}
_COUNT = re.compile(r"[0-9]{1,18}")


class BadRequestError(Exception):
    """The request's body or query cannot be understood; the message says which part."""


class TooLargeError(Exception):
    """The request is larger than any that makes sense; the message says what the limit is."""


class Verb(NamedTuple):
    """What start, stop, restart and wait have in common."""

    agents: tuple[str, ...]
    wait: bool
    timeout: float


class LogQuery(NamedTuple):
    """Which lines of the log are wanted."""

    agents: tuple[str, ...]
    lines: int
    since: str
    """An RFC 3339 UTC time that compares with those of the lines; empty for all."""
    level: int
    follow: bool


async def read_body(request: Request) -> dict[str, Any]:
    """The request's JSON object; an empty one for an empty body.

    Raises:
        TooLargeError: it is longer than `MAX_BODY`.
        BadRequestError: it is no JSON object.
    """
    raw = bytearray()
    try:
        async for chunk in request.stream():
            raw += chunk
            if len(raw) > MAX_BODY:
                raise TooLargeError(f"the body is longer than {MAX_BODY} bytes")
    except ClientDisconnect:
        raise BadRequestError("the body has no end") from None
    try:
        body = json.loads(raw) if raw else {}
    except RecursionError:
        raise BadRequestError("the body is nested too deeply") from None
    except ValueError as error:
        raise BadRequestError(f"the body is no JSON: {error}") from None
    if not isinstance(body, dict):
        raise BadRequestError("the body is no JSON object")
    return body


def take_flag(body: dict[str, Any], name: str) -> bool:
    """A field that is true or false, false unless it is there; taken out of the body."""
    value = body.pop(name, False)
    if not isinstance(value, bool):
        raise BadRequestError(f"`{name}` is true or false")
    return value


def take_choice(body: dict[str, Any], name: str, choices: tuple[str, ...]) -> str:
    """A field that is one of the choices, the first unless it is there; taken out of the body."""
    value = body.pop(name, choices[0])
    if value not in choices:
        *others, last = choices
        raise BadRequestError(f"`{name}` is {_shown(value)}; say {', '.join(others)} or {last}")
    return str(value)


def parse_verb(body: dict[str, Any]) -> Verb:
    """The verb body of `docs/control-api.md`, of which nothing may be left that is not known."""
    agents = body.pop("agents", [])
    wait = body.pop("wait", True)
    timeout = body.pop("timeout", DEFAULT_TIMEOUT)
    if body:
        names = ", ".join(
            shortened(name) if name.isidentifier() else quoted(name) for name in sorted(body)[:SHOWN_FIELDS]
        )
        more = ", …" if len(body) > SHOWN_FIELDS else ""
        raise BadRequestError(f"unknown fields: {names}{more}; there are agents, wait and timeout")
    if not (isinstance(agents, list) and all(isinstance(name, str) for name in agents)):
        raise BadRequestError("`agents` is a list of names")
    if not isinstance(wait, bool):
        raise BadRequestError("`wait` is true or false")
    if (
        isinstance(timeout, bool)
        or not isinstance(timeout, int | float)
        or not 0 <= timeout <= LONGEST_TIMEOUT
    ):
        raise BadRequestError(f"`timeout` is a number of seconds from 0 to {LONGEST_TIMEOUT:g}")
    return Verb(tuple(agents), wait, float(timeout))


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
        follow=_follow(query),
    )


def _lines(text: str | None, *, everything: bool) -> int:
    """How many lines are wanted; without a number the newest ones, or all of those that `since` leaves."""
    if text is None:
        return sys.maxsize if everything else DEFAULT_LINES
    if _COUNT.fullmatch(text) is None:
        raise BadRequestError(f"`n` is {_shown(text)}; it is a number of lines, 0 or more")
    return int(text)


def _level(text: str | None) -> int:
    """The number of the least level that is wanted."""
    if text is None:
        return logging.NOTSET
    if level_name(text) is None:
        raise BadRequestError(f"`level` is {_shown(text)}; it is one of {', '.join(LEVEL_NAMES)}")
    return level_number(text)


def _follow(query: QueryParams) -> bool:
    text = query.get("follow", "0")
    if text not in ("0", "1"):
        raise BadRequestError(f"`follow` is {_shown(text)}; say 1 or 0")
    return text == "1"


def _since(text: str | None) -> str:
    """When the wanted lines begin; empty where that is before all times."""
    if not text:
        return ""
    try:
        moment = _seconds_back(text) or _moment(text)
    except (ValueError, OverflowError):
        raise BadRequestError(
            f"`since` is {_shown(text)}; give seconds back, or an ISO 8601 time of the years 1 to 9999"
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


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.astimezone()).astimezone(UTC)


def _shown(value: object) -> str:
    """A value in an answer: a text as one short line, anything else by its kind."""
    return quoted(value) if isinstance(value, str) else _KINDS[type(value)]
