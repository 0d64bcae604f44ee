"""Bodies of requests to the control socket as typed values, or which part of them cannot be understood.

Knows JSON; nothing of agents. Whatever is sent, the answer names the field.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.requests import ClientDisconnect

from pallas_common.http.json_bounds import parse_json
from pallas_common.problems import quoted, shortened

if TYPE_CHECKING:
    from starlette.requests import Request

DEFAULT_TIMEOUT = 90.0
LONGEST_TIMEOUT = 86_400.0
MAX_QUERY = 32 * 1024
"""Bytes of a request's query."""
MAX_BODY = 1024 * 1024
"""Bytes of a request's body: thousands of names of agents."""
SHOWN_FIELDS = 10
"""Unknown fields that an answer names."""

_COUNT = re.compile(r"[0-9]{1,18}")

_KINDS = {
    dict: "an object",
    list: "a list",
    bool: "a truth value",
    int: "a number",
    float: "a number",
    type(None): "null",
}


class BadRequestError(Exception):
    """The request's body or query cannot be understood; the message says which part."""


class TooLargeError(Exception):
    """The request is larger than any that makes sense; the message says what the limit is."""


class Verb(NamedTuple):
    """What start, stop, restart and wait have in common."""

    agents: tuple[str, ...]
    wait: bool
    timeout: float


async def read_body(request: Request) -> dict[str, Any]:
    """The request's JSON object; an empty one for an empty body.

    Raises:
        TooLargeError: it is longer than `MAX_BODY`.
        BadRequestError: it is no JSON object.
    """
    raw = await read_bytes(request, MAX_BODY)
    try:
        body = parse_json(raw) if raw else {}
    except RecursionError:
        raise BadRequestError("the body is nested too deeply") from None
    except ValueError as error:
        raise BadRequestError(f"the body is no JSON: {error}") from None
    if not isinstance(body, dict):
        raise BadRequestError("the body is no JSON object")
    return body


async def read_bytes(request: Request, most: int) -> bytes:
    """The request's body.

    Raises:
        TooLargeError: it has more than `most` bytes.
        BadRequestError: the client has gone before its end.
    """
    raw = bytearray()
    try:
        async for chunk in request.stream():
            raw += chunk
            if len(raw) > most:
                raise TooLargeError(f"the body is longer than {most} bytes")
    except ClientDisconnect:
        raise BadRequestError("the body has no end") from None
    return bytes(raw)


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
        raise BadRequestError(f"`{name}` is {shown(value)}; say {', '.join(others)} or {last}")
    return str(value)


def parse_count(name: str, text: str, what: str) -> int:
    """A parameter of a query that is a whole number from 0 on; `what` says of what."""
    if _COUNT.fullmatch(text) is None:
        raise BadRequestError(f"`{name}` is {shown(text)}; it is {what}, 0 or more")
    return int(text)


def parse_switch(name: str, text: str) -> bool:
    """A parameter of a query that is `1` or `0`."""
    if text not in ("0", "1"):
        raise BadRequestError(f"`{name}` is {shown(text)}; say 1 or 0")
    return text == "1"


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


def shown(value: object) -> str:
    """A value in an answer: a text as one short line, anything else by its kind."""
    return quoted(value) if isinstance(value, str) else _KINDS[type(value)]
