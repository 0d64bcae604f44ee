"""Lists in portions: `?limit=` and `?cursor=` of a request, `{"items", "nextCursor"}` of an answer. Pure.

A cursor is opaque to clients: the place behind the last entry, encoded, so that nobody takes it for something else.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pallas_gateway.http.errors import ApiError

if TYPE_CHECKING:
    from starlette.requests import Request

type Json = dict[str, Any]

USUAL, MOST = 100, 1000
"""Entries of a page."""
LONGEST_CURSOR = 1000
_WRONG_CURSOR = (
    "cursor: is none of this list; send `nextCursor` as it came, or leave it out for the beginning"
)


@dataclass(frozen=True, slots=True)
class Page:
    """Which part of a list is asked for."""

    limit: int
    cursor: object = None
    """The place behind the last entry of the page before, whatever a client made of it; None for the beginning."""

    def text(self) -> str:
        """The place, where it is a text.

        Raises:
            ApiError: it is something else.
        """
        if not isinstance(self.cursor, str):
            raise wrong_cursor()
        return self.cursor


def read_page(request: Request) -> Page:
    """What the query says.

    Raises:
        ApiError: a limit or cursor that cannot be.
    """
    query = request.query_params
    limit = query.get("limit")
    if limit is not None and not (
        limit.isascii() and limit.isdecimal() and len(limit) <= 4 and 1 <= int(limit) <= MOST
    ):
        raise ApiError(400, "invalid", f"limit: is a whole number from 1 to {MOST}", field="limit")
    said = query.get("cursor")
    return Page(USUAL if limit is None else int(limit), None if said is None else decoded(said))


def page(items: list[Json], last: object) -> Json:
    """The answer.

    Args:
        last: the place of the last of them; None where nothing comes behind it.
    """
    return {"items": items, "nextCursor": None if last is None else encoded(last)}


def wrong_cursor() -> ApiError:
    """For a cursor that was not made here."""
    return ApiError(400, "invalid", _WRONG_CURSOR, field="cursor")


def encoded(place: object) -> str:
    """A place as a cursor."""
    return base64.urlsafe_b64encode(json.dumps(place, separators=(",", ":")).encode()).decode().rstrip("=")


def decoded(text: str) -> object:
    """The place that a cursor says.

    Raises:
        ApiError: it says none.
    """
    try:
        if len(text) > LONGEST_CURSOR:
            raise wrong_cursor()
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars="-_", validate=True)
        found = json.loads(data.decode())
    except (ValueError, binascii.Error, RecursionError):
        raise wrong_cursor() from None
    if found is None:
        raise wrong_cursor()
    return found
